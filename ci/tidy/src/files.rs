//! Rules for every file: length, no path of somebody's machine, no unfinished work.

use crate::Finding;

/// A Rust file longer than this holds more than one idea.
pub const MOST_LINES: usize = 800;

/// Folders of one person's machine; a path that begins there works nowhere else.
const MACHINE_FOLDERS: [&str; 5] = ["home", "root", "work", "farm", "Users"];

/// How code asks for the feature of planted defects.
const DEFECTS: &str = "feature = \"mutants\"";

/// Checks one committed file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    let generated = path.contains("/proto/");
    if path.ends_with(".rs") && !generated && lines > MOST_LINES {
        findings.push(format!(
            "{path} has {lines} lines, {MOST_LINES} is the most: one idea a file"
        ));
    }
    for (number, line) in text.lines().enumerate() {
        let place = format!("{path}:{}", number + 1);
        if let Some(folder) = machine_path(line) {
            findings.push(format!("{place} names /{folder}/, which is a path of one machine"));
        }
        if path.ends_with(".rs") && !path.starts_with("ci/tidy/") && unfinished(line) {
            findings.push(format!("{place} is unfinished: do it, or open an issue"));
        }
        if path.ends_with(".rs")
            && !path.starts_with("ci/tidy/")
            && let Some((word, standard)) = retired(line)
        {
            findings.push(format!(
                "{place} defines {word}, a retired name: use {standard} (docs/reference/glossary.md)"
            ));
        }
        if path.ends_with(".rs") && !of_defects(path) && line.contains(DEFECTS) {
            findings.push(format!(
                "{place} asks for the feature of planted defects: ask defect!(Name)"
            ));
        }
    }
    findings
}

fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_FOLDERS.into_iter().find(|folder| {
        let needle = format!("/{folder}/");
        line.match_indices(&needle).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "_.-}/".contains(c))
        })
    })
}

/// Names that were replaced, and the standard ones.
const RETIRED: [(&str, &str); 15] = [
    ("Brake", "OvershootGuard"),
    ("Called", "TargetBindings"),
    ("Calm", "ActiveDisturbances"),
    ("Deed", "UserAction"),
    ("Desk", "RolloutDraft"),
    ("Hands", "ActionExecutor"),
    ("Held", "PendingSetWrites"),
    ("Made", "CreatedVms"),
    ("Moments", "LastTimes"),
    ("Sight", "CheckContext"),
    ("Someone", "DeferredTarget"),
    ("Struck", "FaultHits"),
    ("Terms", "JudgingRules"),
    ("Told", "the noun for what is observed"),
    ("weave", "combine_with_preservation"),
];

/// The retired name that a line of Rust defines, and the standard one.
fn retired(line: &str) -> Option<(&'static str, &'static str)> {
    let code = line.split("//").next().unwrap_or_default();
    let mut words = code.split_whitespace();
    let item = words.find(|word| ["struct", "enum", "trait", "type", "fn", "mod"].contains(word));
    let name = item.and_then(|_| words.next())?;
    let name = name
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .next()?;
    RETIRED.into_iter().find(|(word, _)| *word == name)
}

/// Whether a file may ask for the feature of planted defects.
fn of_defects(path: &str) -> bool {
    path.starts_with("mcm/defects/") || path.starts_with("ci/tidy/")
}

fn unfinished(line: &str) -> bool {
    ["todo!(", "unimplemented!(", "TODO", "FIXME", "#[ignore]"]
        .iter()
        .any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::too_long("a.rs", "x\n".repeat(MOST_LINES + 1), "one idea a file")]
    #[case::a_home("README.md", format!("see /{}/somebody/notes", "home"), "one machine")]
    #[case::unfinished("src/a.rs", "fn f() { todo!() }".to_owned(), "unfinished")]
    #[case::a_retired_name("src/a.rs", "pub(crate) struct Hands<T>(T);".to_owned(), "a retired name")]
    #[case::a_defect("mcm/src/a.rs", format!("#[cfg({DEFECTS})]"), "ask defect!(Name)")]
    fn what_is_wrong_is_found(#[case] path: &str, #[case] text: String, #[case] said: &str) {
        let findings = check(path, &text);
        assert!(findings.iter().any(|finding| finding.contains(said)), "{findings:?}");
    }

    #[rstest]
    #[case::a_long_table("a.tsv", "x\n".repeat(5000))]
    #[case::a_relative_path("README.md", "see ./work/notes and https://example.com/home/".to_owned())]
    #[case::a_word("src/a.rs", "// Told apart by type Hands".to_owned())]
    #[case::the_hook_of_defects("mcm/defects/src/lib.rs", format!("#[cfg({DEFECTS})]"))]
    fn what_is_fine_is_left_alone(#[case] path: &str, #[case] text: String) {
        assert_eq!(check(path, &text), Vec::<String>::new());
    }
}
