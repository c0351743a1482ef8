//! Runs the commands of the documents, and compares what they print with the page.
//!
//! A block `console` has commands after `$ `, each followed by lines of its output. `…` stands for any text, and a line with only
//! `…` for any lines. Times are not compared. A block `yaml` that begins with `# FILE` is the content of that file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::drydock::{drydock_program, printed};
use crate::up::Up;

/// A part of a page that is performed.
#[derive(Debug, PartialEq)]
enum Block {
    /// A command, and the lines that it must print.
    Command { command: String, output: Vec<String> },
    /// A file.
    File { name: String, text: String },
}

/// The blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    for block in page.split("\n```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').unwrap_or((block, ""));
        match kind {
            "console" => commands(text, &mut found),
            "yaml" => {
                let first = text.lines().next().unwrap_or_default();
                if let Some(name) = first.strip_prefix("# ").filter(|name| name.ends_with(".yaml")) {
                    found.push(Block::File {
                        name: name.to_owned(),
                        text: format!("{text}\n"),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

fn commands(text: &str, found: &mut Vec<Block>) {
    for line in text.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push(Block::Command {
                command: command.to_owned(),
                output: Vec::new(),
            }),
            (None, Some(Block::Command { command, .. })) if command.ends_with('\\') => {
                command.truncate(command.len() - 1);
                command.push_str(line.trim_start());
            }
            (None, Some(Block::Command { output, .. })) => output.push(line.to_owned()),
            (None, _) => panic!("output without a command: {line}"),
        }
    }
}

/// A shell in a copy of the checkout.
struct Shell {
    folder: tempfile::TempDir,
    current: PathBuf,
    up: Option<Up>,
}

impl Shell {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
        let programs = PathBuf::from(drydock_program().get_program());
        std::os::unix::fs::symlink(root.join("examples"), folder.path().join("examples")).unwrap();
        std::fs::create_dir(folder.path().join("target")).unwrap();
        std::os::unix::fs::symlink(programs.parent().unwrap(), folder.path().join("target/debug")).unwrap();
        Self {
            current: folder.path().to_owned(),
            folder,
            up: None,
        }
    }

    /// A command with the programs of the checkout in its PATH.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = self.folder.path().join("target/debug");
        let paths = std::iter::once(programs).chain(std::env::split_paths(&path));
        let paths: OsString = std::env::join_paths(paths).unwrap();
        command.env("PATH", paths).current_dir(&self.current);
        command.env("TMPDIR", self.folder.path());
        if let Some(up) = &self.up {
            command.env("KUBECONFIG", up.kubeconfig());
        }
        command
    }

    fn perform(&mut self, block: Block) {
        match block {
            Block::File { name, text } => std::fs::write(self.current.join(name), text).unwrap(),
            Block::Command { command, output } => {
                let words: Vec<&str> = command.split_whitespace().collect();
                match words.as_slice() {
                    ["cd", folder] => self.current = self.current.join(folder),
                    ["drydock", "up", arguments @ ..] => {
                        let mut up = self.command("drydock");
                        up.arg("up").args(arguments);
                        let up = Up::of(&mut up);
                        compare(&command, &output, &up.printed);
                        self.up = Some(up);
                    }
                    // The shell has it already.
                    ["export", variable] if variable.starts_with("KUBECONFIG=") => {}
                    _ => self.run(&command, &output),
                }
            }
        }
    }

    fn run(&self, command: &str, expected: &[String]) {
        let output = self.command("sh").args(["-c", command]).output().unwrap();
        compare(command, expected, &printed(&output));
        assert_eq!(
            output.status.success(),
            !fails(expected),
            "the exit status of {command}: {}",
            printed(&output)
        );
    }
}

/// Whether the page shows a failure.
fn fails(expected: &[String]) -> bool {
    let shows = |line: &String| line.starts_with("FAIL") || line.starts_with("drydock: ");
    expected.iter().any(shows)
}

/// The text without its times.
fn without_times(text: &str) -> String {
    let times = Regex::new(r"\b(\d+h)?(\d+m)?\d+(\.\d+)?( ?ms|s)\b|\b\d+m\b").unwrap();
    times.replace_all(text, "TIME").into_owned()
}

/// Compares the lines of a page with an output.
fn compare(command: &str, expected: &[String], output: &str) {
    let printed: Vec<String> = without_times(output)
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    let mut rest = printed.as_slice();
    let mut may_skip = false;
    for line in expected {
        if line.trim() == "…" {
            may_skip = true;
            continue;
        }
        let pattern = regex::escape(&without_times(line.trim_end())).replace('…', ".*");
        let pattern = Regex::new(&format!("^{pattern}$")).unwrap();
        let found = rest.iter().position(|printed| pattern.is_match(printed));
        match found {
            Some(skipped) if skipped == 0 || may_skip => rest = &rest[skipped + 1..],
            _ => panic!("{command} does not print {line:?} where the page has it, but:\n{output}"),
        }
        may_skip = false;
    }
    assert!(
        expected.is_empty() || may_skip || rest.is_empty(),
        "{command} prints more than the page: {rest:#?}"
    );
}

fn perform(page: &str) {
    let mut shell = Shell::new();
    let mut blocks = blocks(page);
    if which::which("kubectl").is_err() {
        eprintln!("kubectl is missing: its commands are not run here");
        blocks.retain(|block| !matches!(block, Block::Command { command, .. } if command.starts_with("kubectl ")));
    }
    let commands = blocks.iter().filter(|block| matches!(block, Block::Command { .. }));
    assert!(commands.count() > 4, "the page has no commands");
    for block in blocks {
        shell.perform(block);
    }
    if let Some(up) = shell.up.take() {
        up.end();
    }
}

#[test]
fn the_commands_of_the_tutorial_print_what_it_says() {
    perform(include_str!("../../../docs/using/tutorial.md"));
}

#[test]
fn the_commands_of_getting_started_print_what_it_says() {
    perform(include_str!("../../../docs/using/getting-started.md"));
}

#[test]
fn a_page_has_commands_outputs_and_files() {
    let page = "text\n\n```console\n$ a \\\n    b\nout\n$ c\n```\n\n```yaml\n# d.yaml\ne: f\n```\n";
    let expected = [
        Block::Command {
            command: "a b".to_owned(),
            output: vec!["out".to_owned()],
        },
        Block::Command {
            command: "c".to_owned(),
            output: Vec::new(),
        },
        Block::File {
            name: "d.yaml".to_owned(),
            text: "# d.yaml\ne: f\n".to_owned(),
        },
    ];
    assert_eq!(blocks(page), expected);
}

#[test]
fn outputs_are_compared_without_times_and_omissions() {
    let expected = ["…", "ok a: 1m30s", "b … d"].map(str::to_owned);
    compare("x", &expected, "other\nok a: 1.25s\nb c d\n");
    let differs = std::panic::catch_unwind(|| compare("x", &["ok a".to_owned()], "ok b\n"));
    assert!(differs.is_err(), "a different output is accepted");
    let longer = std::panic::catch_unwind(|| compare("x", &["ok a".to_owned()], "ok a\nFAIL b\n"));
    assert!(longer.is_err(), "an additional line is accepted");
}
