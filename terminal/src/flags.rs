//! The flags that all commands have, and what they set for the process.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, ValueEnum};
use console::style;

/// The verbosity of this process: a value of [`Verbosity`].
static VERBOSITY: AtomicU8 = AtomicU8::new(Verbosity::Normal as u8);

/// How much a process prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

/// How much to print, and whether in colors.
#[derive(Args, Clone, Copy, Debug)]
pub struct OutputFlags {
    /// Prints only failures and totals
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// Prints details
    #[arg(short, long, global = true, help_heading = "Output")]
    verbose: bool,
    /// Colors; auto: on a terminal, unless the environment variable NO_COLOR is set
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        global = true,
        help_heading = "Output"
    )]
    color: Color,
}

/// When output is colored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl OutputFlags {
    /// Sets verbosity and colors of this process.
    pub fn apply(self) {
        let verbosity = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        };
        VERBOSITY.store(verbosity as u8, Ordering::Relaxed);
        match self.color {
            Color::Auto => {}
            color => {
                console::set_colors_enabled(color == Color::Always);
                console::set_colors_enabled_stderr(color == Color::Always);
            }
        }
    }
}

/// Whether this process prints only failures and totals.
pub fn is_quiet() -> bool {
    VERBOSITY.load(Ordering::Relaxed) == Verbosity::Quiet as u8
}

/// Whether this process prints details.
pub fn is_verbose() -> bool {
    VERBOSITY.load(Ordering::Relaxed) == Verbosity::Verbose as u8
}

/// A text about a failure on standard output: red, if it is colored.
pub fn failure(text: &str) -> String {
    style(text).red().to_string()
}

/// A text about a failure on standard error: red, if it is colored.
pub fn failure_on_stderr(text: &str) -> String {
    style(text).for_stderr().red().to_string()
}

/// Whether text on standard error is colored, such as logs.
pub fn colors_on_stderr() -> bool {
    console::colors_enabled_stderr()
}

/// The arguments of this process; help and errors follow `--color`.
///
/// # Errors
/// For wrong arguments, and for a request of help or of the version.
pub fn parse<T: CommandFactory + FromArgMatches>() -> Result<T, clap::Error> {
    let command = T::command().color(color_of(std::env::args_os()));
    T::from_arg_matches(&command.try_get_matches()?)
}

/// The choice of `--color` in arguments that are not parsed yet: help and messages about wrong arguments follow it, too.
fn color_of(arguments: impl IntoIterator<Item = OsString>) -> ColorChoice {
    let mut choice = ColorChoice::Auto;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let value = match argument.to_str() {
            Some("--") => break,
            Some("--color") => arguments.next(),
            Some(text) => text.strip_prefix("--color=").map(OsString::from),
            None => None,
        };
        choice = match value.as_ref().and_then(|value| value.to_str()) {
            Some("always") => ColorChoice::Always,
            Some("never") => ColorChoice::Never,
            Some(_) => ColorChoice::Auto,
            None => choice,
        };
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_color_is_found_in_arguments() {
        let of = |arguments: &[&str]| color_of(arguments.iter().map(OsString::from));
        assert_eq!(of(&["run", "--color", "never", "a"]), ColorChoice::Never);
        assert_eq!(of(&["--color=always"]), ColorChoice::Always);
        assert_eq!(of(&["--color=always", "--color", "auto"]), ColorChoice::Auto);
        assert_eq!(of(&["run", "--", "--color=always"]), ColorChoice::Auto);
        assert_eq!(of(&["--color"]), ColorChoice::Auto);
    }
}
