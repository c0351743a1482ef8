//! The terminal pictures of the documents, from the output of the commands in them.
//!
//! `DRYDOCK_WRITE_DOCS=1 cargo test --workspace --test it screenshots` writes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anstyle_svg::Term;
use regex::Regex;
use rstest::rstest;

use crate::drydock::{drydock_program, printed};

/// The width of the pictures in columns.
const WIDTH: usize = 110;
/// The lines that a command shows at most.
const MOST_LINES: usize = 9;

/// A picture of these commands, one after another in one folder.
fn picture(commands: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
    let tutorial = include_str!("../../../docs/using/tutorial.md");
    let scenario = tutorial.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    write("three-machines.yaml", scenario);
    write("mistake.yaml", &scenario.replace("vm: kill", "vm: kil"));
    let programs = PathBuf::from(drydock_program().get_program());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(programs.parent().unwrap().to_owned()).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).unwrap();
    let mut text = String::new();
    for command in commands {
        // On a terminal the output is in color.
        let line = command.replacen("drydock ", "drydock --color=always ", 1);
        let output = Command::new("sh")
            .args(["-c", &line])
            .env("PATH", &path)
            .current_dir(folder.path())
            .output()
            .unwrap();
        text += &format!("\x1b[1m$ {command}\x1b[0m\n{}", shortened(&printed(&output)));
    }
    let picture = Term::new().render_svg(&text);
    format!("{}\n", picture.trim_end())
}

/// The first lines of an output, in the width of the picture, without what differs from run to run.
fn shortened(output: &str) -> String {
    let replaced = [
        // The wall clock.
        (r"virtual in [0-9.]+s", "virtual in 0.1s"),
        (r"(embedded seed \d+): [0-9.]+s", "$1: 9.9s"),
        (r", trace [0-9a-f]+ \(\d+ entries\)", ""),
    ];
    let mut text = output.to_owned();
    for (pattern, replacement) in replaced {
        text = Regex::new(pattern)
            .unwrap()
            .replace_all(&text, replacement)
            .into_owned();
    }
    let is_shown = |line: &&str| !line.contains("warning: ") && !line.contains("note: ");
    let lines: Vec<&str> = text.lines().filter(is_shown).collect();
    let mut shown: String = lines.iter().take(MOST_LINES).map(|line| cut(line)).collect();
    if lines.len() > MOST_LINES {
        shown += "…\n";
    }
    shown
}

/// A line in the width of the picture. Escape sequences have no width; the last one ends the color.
fn cut(line: &str) -> String {
    let mut cut = String::new();
    let (mut width, mut is_escape) = (0, false);
    for letter in line.chars() {
        is_escape |= letter == '\x1b';
        if !is_escape {
            width += 1;
        }
        if is_escape || width < WIDTH {
            cut.push(letter);
        }
        is_escape &= letter != 'm';
    }
    if width >= WIDTH {
        cut.push('…');
    }
    cut + "\n"
}

#[rstest]
#[case::a_bug("chaos", &[
    "drydock chaos first-light --mutant R04 --failures 1 --jobs 1 | head -7",
    "drydock shrink .drydock/chaos/*/plan.yaml",
    "sed -n 's/^# - //p' .drydock/chaos/*/plan.shrunk.yaml | tail -9",
])]
#[case::a_scenario("scenario", &[
    "drydock validate mistake.yaml",
    "drydock run --file three-machines.yaml --stage sim",
    "drydock run --file three-machines.yaml --stage embedded",
])]
fn the_pictures_show_what_the_commands_print(#[case] name: &str, #[case] commands: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/images/{name}.svg"));
    let picture = picture(commands);
    if std::env::var_os("DRYDOCK_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &picture).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).is_ok_and(|committed| committed == picture),
        "docs/images/{name}.svg is stale: DRYDOCK_WRITE_DOCS=1 cargo test --workspace --test it screenshots writes it"
    );
}
