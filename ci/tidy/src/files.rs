//! Rules for every file: length, no machine-specific paths, no unfinished work, no retired names.

use crate::Finding;

/// The maximum number of lines of a Rust file.
pub const MAX_LINES: usize = 800;

/// Top-level folders that are specific to one machine.
const MACHINE_FOLDERS: [&str; 5] = ["home", "root", "work", "farm", "Users"];

/// The condition for code of the feature that builds defects.
const DEFECTS: &str = "feature = \"mutants\"";

/// Checks one committed file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    let generated = path.contains("/proto/");
    if path.ends_with(".rs") && !generated && lines > MAX_LINES {
        findings.push(format!(
            "{path} has {lines} lines, more than {MAX_LINES}: split it, one idea per file"
        ));
    }
    for (number, line) in text.lines().enumerate() {
        let place = format!("{path}:{}", number + 1);
        if let Some(folder) = machine_path(line) {
            findings.push(format!(
                "{place} contains a path below /{folder}/, which is specific to one machine"
            ));
        }
        if path.ends_with(".rs") && !path.starts_with("ci/tidy/") && unfinished(line) {
            findings.push(format!("{place} is unfinished: finish it or open an issue"));
        }
        if path.ends_with(".rs")
            && !path.starts_with("ci/tidy/")
            && let Some((word, standard)) = retired(line)
        {
            findings.push(format!(
                "{place} defines {word}, a retired name: use {standard} (docs/reference/glossary.md)"
            ));
        }
        if path.ends_with(".rs") && !may_use_defects_feature(path) && line.contains(DEFECTS) {
            findings.push(format!("{place} uses the defects feature directly: use defect!(Name)"));
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

/// Replaced names and their standard terms.
const RETIRED: [(&str, &str); 18] = [
    ("Brake", "OvershootGuard"),
    ("Called", "TargetBindings"),
    ("Calm", "ActiveDisturbances"),
    ("Deed", "UserAction"),
    ("Desk", "RolloutDraft"),
    ("Hands", "ActionExecutor"),
    ("Held", "PendingSetWrites"),
    ("InHand", "MachineRequests"),
    ("Made", "CreatedVms"),
    ("Moments", "LastTimes"),
    ("Patience", "NodeTimeouts"),
    ("Sight", "CheckContext"),
    ("Someone", "DeferredTarget"),
    ("Struck", "FaultHits"),
    ("Terms", "JudgingRules"),
    ("Told", "the noun for what is observed"),
    ("Truth", "ServedMachine"),
    ("weave", "combine_with_preservation"),
];

/// The retired name that a line of Rust defines, and its standard term.
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

/// Whether a file may use the defects feature directly.
fn may_use_defects_feature(path: &str) -> bool {
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
    #[case::too_long("a.rs", "x\n".repeat(MAX_LINES + 1), "one idea per file")]
    #[case::a_machine_path("README.md", format!("see /{}/somebody/notes", "home"), "specific to one machine")]
    #[case::unfinished("src/a.rs", "fn f() { todo!() }".to_owned(), "unfinished")]
    #[case::a_retired_name("src/a.rs", "pub(crate) struct Hands<T>(T);".to_owned(), "a retired name")]
    #[case::a_defect("mcm/src/a.rs", format!("#[cfg({DEFECTS})]"), "use defect!(Name)")]
    fn violations_are_found(#[case] path: &str, #[case] text: String, #[case] expected: &str) {
        let findings = check(path, &text);
        assert!(
            findings.iter().any(|finding| finding.contains(expected)),
            "{findings:?}"
        );
    }

    #[rstest]
    #[case::a_long_table("a.tsv", "x\n".repeat(5000))]
    #[case::a_relative_path("README.md", "see ./work/notes and https://example.com/home/".to_owned())]
    #[case::a_word("src/a.rs", "// Told apart by type Hands".to_owned())]
    #[case::the_defects_crate("mcm/defects/src/lib.rs", format!("#[cfg({DEFECTS})]"))]
    fn valid_files_have_no_findings(#[case] path: &str, #[case] text: String) {
        assert_eq!(check(path, &text), Vec::<String>::new());
    }
}
