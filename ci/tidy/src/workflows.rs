//! Rules for the workflows and the action of GitHub: make targets and scripts that they call exist, and actions of others are pinned.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Finding;

/// What a workflow may call.
#[derive(Clone, Debug, Default)]
pub struct Callable {
    /// The targets of the Makefile.
    pub targets: BTreeSet<String>,
    /// The executable files of the repository.
    pub scripts: BTreeSet<String>,
}

/// Folders with scripts.
const SCRIPTS: [&str; 3] = ["ci/", ".ci/", "scripts/"];

/// The targets that a Makefile defines.
pub fn targets(makefile: &str) -> BTreeSet<String> {
    let rule = |line: &str| {
        let (target, rest) = line.split_once(':')?;
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        let is_target = !target.is_empty() && target.chars().all(is_name) && !rest.starts_with('=');
        is_target.then(|| target.to_owned())
    };
    makefile.lines().filter_map(rule).collect()
}

/// Checks a workflow, or the action of this repository.
pub fn check(path: &str, text: &str, callable: &Callable) -> Vec<Finding> {
    let document: Value = match serde_saphyr::from_str(text) {
        Ok(document) => document,
        Err(error) => return vec![format!("{path} is not valid YAML: {error}")],
    };
    let mut findings = Vec::new();
    let steps = steps(&document);
    if steps.is_empty() {
        findings.push(format!("{path} has no steps"));
    }
    for step in steps {
        match (step["uses"].as_str(), step["run"].as_str()) {
            (Some(action), None) => findings.extend(unpinned(action).map(|why| format!("{path}: {why}"))),
            (None, Some(commands)) => {
                findings.extend(missing(commands, callable).map(|what| format!("{path} calls {what}")));
            }
            _ => findings.push(format!("{path}: a step needs either `uses` or `run`: {step}")),
        }
    }
    findings
}

/// The steps of all jobs, or of a composite action.
fn steps(document: &Value) -> Vec<&Value> {
    let jobs = document["jobs"].as_object().into_iter().flatten();
    let of_jobs = jobs.map(|(_, job)| &job["steps"]);
    let lists = of_jobs.chain([&document["runs"]["steps"]]);
    lists.filter_map(Value::as_array).flatten().collect()
}

/// Why an action of others is not pinned to a commit; `None`: it is, or it is a folder of a checkout.
fn unpinned(action: &str) -> Option<String> {
    let is_commit = |reference: &str| reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pinned = action
        .split_once('@')
        .is_some_and(|(_, reference)| is_commit(reference));
    (!pinned && !action.starts_with("./")).then(|| format!("{action} can change: pin it to a commit"))
}

/// The make targets and scripts in a shell script that do not exist.
fn missing<'a>(commands: &'a str, callable: &'a Callable) -> impl Iterator<Item = String> + 'a {
    commands.lines().flat_map(move |line| {
        let line = line.replace("$GITHUB_ACTION_PATH/", "");
        let words: Vec<String> = line
            .split([' ', '"', ';', '&', '|', '(', ')'])
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let scripts = words
            .iter()
            .filter(|word| SCRIPTS.iter().any(|folder| word.starts_with(folder)));
        let scripts: Vec<String> = scripts
            .filter(|script| !callable.scripts.contains(*script))
            .map(|script| format!("{script}, which is no executable file"))
            .collect();
        let after_make = words.iter().skip_while(|word| *word != "make").skip(1);
        let targets: Vec<String> = after_make
            .filter(|word| !word.starts_with('-') && !word.contains('=') && !callable.targets.contains(*word))
            .map(|target| format!("make {target}, which is no target of the Makefile"))
            .collect();
        scripts.into_iter().chain(targets)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const COMMIT: &str = "ea165f8d65b6e75b540449e92b4886f43607fa02";

    fn findings(steps: &str) -> Vec<Finding> {
        let callable = Callable {
            targets: targets("CARGO ?= cargo\n.PHONY: e2e\ne2e: build\nkind-e2e-short: build ## some\n\tmake x: y\n"),
            scripts: BTreeSet::from(["ci/kind".to_owned()]),
        };
        check("a.yaml", &format!("jobs:\n  a:\n    steps: {steps}\n"), &callable)
    }

    #[rstest]
    #[case::a_script("[run: ci/kind kind-e2e]".to_owned())]
    #[case::targets("[run: make -k e2e kind-e2e-short SEEDS=3]".to_owned())]
    #[case::a_pinned_action(format!("[uses: actions/checkout@{COMMIT}]"))]
    #[case::a_folder("[uses: ./.source]".to_owned())]
    fn valid_steps_have_no_findings(#[case] steps: String) {
        assert_eq!(findings(&steps), Vec::<Finding>::new());
    }

    #[rstest]
    #[case::a_missing_script("[run: cd a && ci/knid]", "calls ci/knid")]
    #[case::a_missing_target("[run: make e3e]", "make e3e, which is no target")]
    #[case::a_moving_action("[uses: actions/checkout@v4]", "pin it to a commit")]
    #[case::neither("[name: a]", "either `uses` or `run`")]
    #[case::no_steps("[]", "has no steps")]
    #[case::no_yaml("[", "not valid YAML")]
    fn invalid_steps_are_found(#[case] steps: &str, #[case] expected: &str) {
        let found = findings(steps);
        assert!(found.iter().any(|finding| finding.contains(expected)), "{found:?}");
    }

    #[test]
    fn scripts_of_the_action_are_checked() {
        let callable = Callable::default();
        let action = "runs:\n  steps:\n  - run: |\n      \"$GITHUB_ACTION_PATH/scripts/install\" a\n";
        let expected = "action.yml calls scripts/install, which is no executable file";
        assert_eq!(check("action.yml", action, &callable), [expected]);
    }
}
