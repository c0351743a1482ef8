//! What a killed `drydock up` leaves behind is removed by the next one and by `drydock doctor --clean`.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::drydock::{drydock_program, printed};
use crate::up::Up;

/// A shell whose child does not end together with the shell.
const CONTROLLER: [&str; 3] = ["up", "--controller", "sleep 600; true"];

/// Folders for temporary files and for each `drydock up`.
struct Site {
    temporary: TempDir,
    folders: TempDir,
}

impl Site {
    fn new() -> Self {
        Self {
            temporary: tempfile::tempdir().unwrap(),
            folders: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs a command in the folder of that name.
    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let folder = self.folders.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = drydock_program();
        command
            .args(arguments)
            .env("TMPDIR", self.temporary.path())
            .current_dir(folder);
        command
    }

    fn output(&self, name: &str, arguments: &[&str]) -> Output {
        self.command(name, arguments).output().unwrap()
    }

    fn up(&self, name: &str, arguments: &[&str]) -> Up {
        Up::of(&mut self.command(name, arguments))
    }

    /// Starts `drydock up` and kills it. Returns its run folder.
    fn killed(&self, name: &str) -> PathBuf {
        let mut up = self.up(name, &CONTROLLER);
        let folder = up.run_folder();
        let shell = |program: &String| program.contains("sleep 600;");
        while !programs_of(&folder).iter().any(shell) {
            std::thread::yield_now();
        }
        up.child.kill().unwrap();
        up.child.wait().unwrap();
        folder
    }
}

/// Ends it by Ctrl-C; its folder is removed.
fn end(up: Up) {
    let folder = up.run_folder();
    up.end();
    assert!(!folder.exists());
}

/// The command lines of the programs that were started for the run of this folder.
fn programs_of(folder: &Path) -> Vec<String> {
    let name = folder.file_name().unwrap().as_bytes();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let marker = |variable: &[u8]| variable.starts_with(b"DRYDOCK_RUN_FOLDER=") && variable.ends_with(name);
    processes
        .filter(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(marker)
        })
        .map(|entry| {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).replace('\0', " ")
        })
        .collect()
}

#[test]
fn the_next_up_removes_what_a_killed_one_left() {
    let site = Site::new();
    let left = site.killed("one");
    assert!(left.join("kubeconfig").exists());
    let up = site.up("one", &["up", "--without", "mcm"]);
    assert!(!left.exists());
    assert_eq!(programs_of(&left), Vec::<String>::new());
    end(up);
    let names = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!(
        (names(site.temporary.path()), names(&site.folders.path().join("one"))),
        (0, 0)
    );
}

#[test]
fn the_doctor_lists_and_removes_leftovers_but_nothing_of_a_living_run() {
    let site = Site::new();
    let living = site.up("living", &["up", "--without", "mcm"]);
    let left = site.killed("killed");
    // A link that has the name of a leftover refers to something precious.
    let precious = site.folders.path().join("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join(".drydock-lock"), "drydock up").unwrap();
    symlink(&precious, site.temporary.path().join("drydock-x")).unwrap();

    let healthy = printed(&site.output("living", &["doctor"]));
    assert!(healthy.contains("up        running; no panics of "), "{healthy}");
    let listed = printed(&site.output("killed", &["doctor"]));
    let line = format!("leftover  {}: the folder of `drydock up`, ", left.display());
    assert!(listed.contains(&line), "{listed}");
    assert!(
        listed.contains("up.json: the file of a killed `drydock up`"),
        "{listed}"
    );
    assert!(
        listed.contains("2 leftovers of killed runs: drydock doctor --clean"),
        "{listed}"
    );
    assert!(left.exists());

    let cleaned = printed(&site.output("killed", &["doctor", "--clean"]));
    assert!(cleaned.contains(&format!("removed   {}", left.display())), "{cleaned}");
    assert!(!left.exists());
    assert_eq!(programs_of(&left), Vec::<String>::new());
    let again = printed(&site.output("killed", &["doctor"]));
    assert!(again.contains("leftovers none"), "{again}");

    assert!(living.run_folder().join("kubeconfig").exists());
    assert!(site.folders.path().join("living/.drydock/up.json").exists());
    assert!(precious.join(".drydock-lock").exists());
    assert!(site.temporary.path().join("drydock-x").is_symlink());
    end(living);
}

#[test]
fn the_doctor_says_when_nothing_runs() {
    let text = printed(&Site::new().output("empty", &["doctor"]));
    assert!(text.contains("up        no `drydock up` runs in this folder"), "{text}");
}

#[test]
fn a_run_says_in_one_line_what_it_removes() {
    let site = Site::new();
    let left = site.killed("killed");
    let output = site.output("other", &["run", "lifecycle", "--stage", "sim"]);
    assert!(output.status.success(), "{}", printed(&output));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = errors.lines().filter(|line| line.contains("leftover")).collect();
    assert_eq!(lines.len(), 1, "{errors}");
    assert!(
        lines[0].starts_with("drydock: removed 1 leftover of killed runs ("),
        "{errors}"
    );
    assert!(!left.exists());
}
