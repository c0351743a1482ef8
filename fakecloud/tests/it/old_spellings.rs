//! Old spellings in files: the program reads them and warns on standard error.

use std::process::Command;

#[test]
fn an_old_spelling_in_a_file_of_rules_is_a_warning_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(
        &file,
        "- {id: a, operation: create, code: Internal}\n- {id: b, code: Aborted}\n",
    )
    .unwrap();
    // No cloud listens there; the file is read first.
    let output = Command::new(env!("CARGO_BIN_EXE_fakecloud"))
        .args(["faults", "add", "--cloud", "grpc://127.0.0.1:1"])
        .arg(&file)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let warnings: Vec<&str> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    let expected = [
        "id is now name",
        "operation is now match.call",
        "code is now action.code",
        "match.call: create is now match.call: createMachine",
    ]
    .map(|line| {
        let file = file.display();
        format!("warning: {file}: {line}; the old spelling is removed in the next release")
    });
    assert_eq!(warnings, expected);
}
