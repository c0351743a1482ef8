//! Shipped programs contain no defects.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::drydock::{cargo, drydock_program};

#[test]
fn mcm_without_features_has_no_mutants() {
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
fn the_programs_that_scenarios_run_have_no_defects() {
    let drydock = PathBuf::from(drydock_program().get_program());
    let names = |program: &Path| {
        let defect = defects::Defect::CreatesWithoutAsking.name();
        let found = Command::new("grep")
            .args(["--quiet", "--text", defect])
            .arg(program)
            .status();
        found.unwrap().success()
    };
    assert!(names(&drydock), "drydock contains the defects for simulations");
    assert!(!names(&drydock.with_file_name("mcm")));
}
