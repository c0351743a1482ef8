//! `drydock completion`: completes the command line in a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use super::output::say;
use super::{Arguments, Ended, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  drydock completion bash > ~/.local/share/bash-completion/completions/drydock")]
pub(super) struct Completion {
    /// The shell
    shell: Shell,
}

impl Completion {
    pub(super) fn execute(&self) -> Ended {
        say!("{}", script(self.shell));
        Ok(Outcome::Passed)
    }
}

/// The script that the shell loads.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "drydock", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_completes_commands_and_flags() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for word in ["regressions", "seeds"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
