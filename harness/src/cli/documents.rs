//! Checks the commands in the documents: the command line accepts every one.

use std::path::{Path, PathBuf};

use clap::Parser as _;

use super::Arguments;

/// The pages of the repository.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root.join("docs"), root.join("examples"), root.join("fakecloud")];
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The commands of drydock in the blocks of a page, without comments.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let text: String = blocks.flat_map(|block| [block, "\n"]).collect();
    let text = text.replace("\\\n", " ");
    let commands = text.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let commands = commands.filter(|line| line.starts_with("drydock "));
    let commands = commands.filter(|line| !line.ends_with(':') && !line.starts_with("drydock: "));
    commands.map(str::to_owned).collect()
}

/// The words of a command as a shell splits them; a comment, a redirection and a pipe end it.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in command.chars() {
        match (quote, letter) {
            (None, '#' | '>' | '|' | ';' | '&') => break,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ' ') => words.push(String::new()),
            (Some(open), _) if open == letter => quote = None,
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn the_command_line_accepts_every_command_of_the_documents() {
    let mut checked = 0;
    let mut refused = Vec::new();
    for page in pages() {
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            checked += 1;
            if let Err(error) = Arguments::try_parse_from(words(&command)) {
                refused.push(format!("{}: {command}\n{error}", page.display()));
            }
        }
    }
    assert!(checked > 90, "only {checked} commands were found");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn a_command_is_split_as_a_shell_does() {
    let command = "drydock run a --controller 'exec b \"c\"'  # comment";
    assert_eq!(words(command), ["drydock", "run", "a", "--controller", "exec b \"c\""]);
    assert_eq!(words("drydock schema > file"), ["drydock", "schema"]);
}
