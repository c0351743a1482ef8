//! Releases: their archives contain all programs with man pages and completions, and are installed only with the right checksum.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::drydock::printed;
use crate::programs::program;

/// A program with the commands that the archive needs, and an own name.
const STAND_IN: &str = r#"#!/bin/sh
case $1 in
  man) echo "$0" > "$2/$(basename "$0").1" ;;
  completion) echo "completion of $2" ;;
  *) echo "this is $(basename "$0")" ;;
esac
"#;

fn script(name: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/release");
    Command::new(folder.join(name))
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", printed(&output));
    output
}

/// The files of a release with stand-ins for the programs.
fn release(folder: &Path) -> PathBuf {
    let built = folder.join("built");
    fs::create_dir(&built).unwrap();
    for name in ["drydock", "mcm", "fakecloud"] {
        let path = built.join(name);
        fs::write(&path, STAND_IN).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let files = folder.join("files");
    fs::create_dir(&files).unwrap();
    let archive = files.join(archive());
    run(script("pack").arg(&built).arg(&archive));
    let sums = Command::new("sh")
        .args(["-c", "sha256sum *.tar.gz > SHA256SUMS"])
        .current_dir(&files)
        .status();
    assert!(sums.unwrap().success());
    files
}

/// The archive for this machine.
fn archive() -> String {
    format!("drydock-{}-unknown-linux-musl.tar.gz", std::env::consts::ARCH)
}

fn install(folder: &Path, files: &Path) -> Output {
    let url = format!("file://{}", files.display());
    script("install").arg(folder.join("bin")).arg(url).output().unwrap()
}

#[test]
fn a_release_is_installed_from_its_archive() {
    let folder = tempfile::tempdir().unwrap();
    let files = release(folder.path());
    let listed = run(Command::new("tar").arg("-tzf").arg(files.join(archive())));
    let listed = printed(&listed);
    let expected = [
        "./LICENSE",
        "./completions/drydock.bash",
        "./completions/drydock.zsh",
        "./man/drydock.1",
        "./man/fakecloud.1",
        "./man/mcm.1",
    ];
    for file in expected {
        assert!(listed.lines().any(|line| line == file), "{file}: {listed}");
    }
    let output = install(folder.path(), &files);
    assert!(output.status.success(), "{}", printed(&output));
    for name in ["drydock", "mcm", "fakecloud"] {
        let output = run(&mut Command::new(folder.path().join("bin").join(name)));
        assert_eq!(printed(&output), format!("this is {name}\n"));
    }
}

#[test]
fn an_archive_with_another_checksum_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let files = release(folder.path());
    let other = fs::read(files.join(archive())).unwrap();
    fs::write(files.join(archive()), [&other[..], b"more"].concat()).unwrap();
    let output = install(folder.path(), &files);
    assert!(!output.status.success(), "{}", printed(&output));
    assert_eq!(fs::read_dir(folder.path().join("bin")).unwrap().count(), 0);
    let output = install(folder.path(), &folder.path().join("nowhere"));
    assert!(!output.status.success(), "{}", printed(&output));
    assert!(printed(&output).contains("cannot fetch "), "{}", printed(&output));
}

#[test]
fn all_programs_write_man_pages() {
    let folder = tempfile::tempdir().unwrap();
    for (name, commands) in [("drydock", "run"), ("mcm", "vm"), ("fakecloud", "serve")] {
        run(program(name).arg("man").arg(folder.path()));
        for page in [format!("{name}.1"), format!("{name}-{commands}.1")] {
            let text = fs::read_to_string(folder.path().join(&page)).unwrap();
            assert!(text.contains(".TH"), "{page}: {text}");
        }
    }
}
