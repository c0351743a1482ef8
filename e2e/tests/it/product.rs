//! What is shipped has no planted defects.

use crate::drydock::cargo;

#[test]
fn mcm_by_itself_has_no_mutants() {
    let output = cargo()
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
    let module = include_str!("../../../mcm/core/src/machine/mod.rs");
    let lines: Vec<&str> = module.lines().collect();
    let of_mutants = |line: &&str| line.contains("mod mutant;") || line.contains("pub use mutant::");
    let places: Vec<usize> = (0..lines.len()).filter(|line| of_mutants(&lines[*line])).collect();
    assert_eq!(places.len(), 2, "the module and what it gives away");
    for line in places {
        // What is not compiled cannot be named: whoever uses it has to be behind the feature, too.
        assert_eq!(lines[line - 1], "#[cfg(feature = \"mutants\")]", "line {}", line + 1);
    }
}
