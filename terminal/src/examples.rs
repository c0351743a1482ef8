//! Examples in the help of commands.

use clap::Command;

/// The visible commands without subcommands whose help has no example: for a test.
pub fn commands_without_examples(command: &Command) -> Vec<String> {
    let mut missing = Vec::new();
    add_missing(command, command.get_name(), &mut missing);
    missing
}

fn add_missing(command: &Command, path: &str, missing: &mut Vec<String>) {
    let visible: Vec<&Command> = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .collect();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if visible.is_empty() && !(help.contains("Example:\n  ") || help.contains("Examples:\n  ")) {
        missing.push(path.to_owned());
    }
    for subcommand in visible {
        add_missing(subcommand, &format!("{path} {}", subcommand.get_name()), missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visible_command_without_an_example_is_named() {
        let command = Command::new("cloud")
            .subcommand(Command::new("list").after_help("Example:\n  cloud list"))
            .subcommand(Command::new("vm").subcommand(Command::new("stop")))
            .subcommand(Command::new("internal").hide(true));
        assert_eq!(commands_without_examples(&command), ["cloud vm stop"]);
    }
}
