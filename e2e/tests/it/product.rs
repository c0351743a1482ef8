//! What is shipped has no planted defects.

use std::process::Command;

#[test]
fn mcm_by_itself_has_no_mutants() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "mcm", "--edges", "normal,features"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8_lossy(&output.stdout);
    assert!(tree.contains("mcm-core"), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!tree.contains("mutants"), "{tree}");
}

#[test]
fn a_mutant_is_code_of_that_feature_only() {
    let settings = include_str!("../../../mcm/core/src/machine/settings.rs");
    let lines: Vec<&str> = settings.lines().collect();
    let mutants = |line: &str| line.contains("Mutant") && !line.trim_start().starts_with("//");
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| mutants(line)) {
        let guarded = lines[index.saturating_sub(3)..index].iter();
        assert!(
            guarded.clone().any(|line| line.contains("cfg(feature = \"mutants\")")),
            "line {} is not behind the feature",
            index + 1
        );
    }
}
