//! `make check`: the format, and the tests of the crates that the working tree's change concerns. Each test program runs as
//! soon as it is built, beside the rest of the build; the first that fails ends everything.
//!
//! `check [COMMIT]` compares with another commit than HEAD.
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // a command that prints, and measures its own wall time

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Instant;

use serde_json::Value;
use tidy::affected::affected;

/// The crate whose tests run whole scenarios, for minutes: they come last.
const SLOW: &str = "e2e";

type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let started = Instant::now();
    let base = std::env::args().nth(1).unwrap_or_else(|| "HEAD".to_owned());
    let checked = check(&base);
    let seconds = started.elapsed().as_secs_f64();
    match checked {
        Ok(words) => {
            println!("check passed after {seconds:.0} s: {words}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            println!("check FAILED after {seconds:.0} s: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn check(base: &str) -> Result<String> {
    let changed = changed(base)?;
    let paths: Vec<&str> = changed.lines().collect();
    if paths.is_empty() {
        return Ok(format!(
            "nothing differs from {base}; `make check BASE=COMMIT` compares with another commit"
        ));
    }
    let metadata = output(
        "cargo",
        &["metadata", "--no-deps", "--offline", "--format-version", "1"],
    )?;
    let metadata = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let crates = affected(&metadata, &paths);
    println!(
        "{} files differ from {base}; testing {}",
        paths.len(),
        crates.join(", ")
    );
    let format = Command::new("cargo").args(["fmt", "--all", "--check"]).status();
    if !format.is_ok_and(|status| status.success()) {
        return Err("the format: run `cargo fmt --all`".to_owned());
    }
    let count = build_and_test(&crates)?;
    Ok(format!("the format, and {count} test programs"))
}

/// The files that differ from a commit, new ones included, relative to the folder of the workspace.
fn changed(base: &str) -> Result<String> {
    let differ = output("git", &["diff", "--name-only", "--relative", base])?;
    let new = output("git", &["ls-files", "--others", "--exclude-standard"])?;
    Ok(differ + &new)
}

fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program} {}: {}", arguments.join(" "), output.status)),
    }
}

/// Builds all tests of the workspace, so that every crate is built with the features that it has in `make test`, and runs
/// those of the crates.
fn build_and_test(crates: &[String]) -> Result<usize> {
    let mut build = Command::new("cargo")
        .args([
            "test",
            "--workspace",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let messages = build.stdout.take().ok_or("cargo has no output")?;
    let (built, programs) = channel();
    let tested = std::thread::scope(|scope| {
        scope.spawn(move || {
            for line in BufReader::new(messages).lines().map_while(std::result::Result::ok) {
                let program = serde_json::from_str(&line)
                    .ok()
                    .and_then(|message| Program::of(&message));
                // Nobody receives any more when a test has failed.
                if program.is_some_and(|program| built.send(program).is_err()) {
                    return;
                }
            }
        });
        let tested = run_all(&programs, crates);
        if tested.is_err() {
            let _ = build.kill();
        }
        drop(programs);
        tested
    });
    let build = build.wait().map_err(|error| format!("cargo: {error}"))?;
    let tested = tested?;
    match build.success() {
        true => Ok(tested),
        false => Err("the build".to_owned()),
    }
}

/// Runs the programs as they are built: of those that are there, one of the crate that comes first in `crates`.
fn run_all(programs: &Receiver<Program>, crates: &[String]) -> Result<usize> {
    let rank = |program: &Program| crates.iter().position(|name| *name == program.of);
    let (mut pending, mut is_building, mut count) = (Vec::new(), true, 0);
    loop {
        loop {
            match programs.try_recv() {
                Ok(program) => pending.extend(rank(&program).map(|rank| (rank, program))),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    is_building = false;
                    break;
                }
            }
        }
        let may_run = |(_, program): &(usize, Program)| !is_building || program.of != SLOW;
        let ready = pending.iter().enumerate().filter(|(_, entry)| may_run(entry));
        match ready.min_by_key(|(_, (rank, _))| *rank).map(|(index, _)| index) {
            Some(index) => {
                pending.swap_remove(index).1.run()?;
                count += 1;
            }
            None if is_building => {
                if let Ok(program) = programs.recv() {
                    pending.extend(rank(&program).map(|rank| (rank, program)));
                }
            }
            None => return Ok(count),
        }
    }
}

/// A test program that cargo has built.
struct Program {
    /// The crate's name.
    of: String,
    /// The target's name.
    target: String,
    executable: String,
    manifest: String,
}

impl Program {
    fn of(message: &Value) -> Option<Self> {
        let text = |pointer: &str| message.pointer(pointer)?.as_str().map(str::to_owned);
        if message["profile"]["test"] != true {
            return None;
        }
        let manifest = text("/manifest_path")?;
        let id = text("/package_id")?;
        // path+file:///folder#name@version, or path+file:///folder/name#version
        let (path, version) = id.rsplit_once('#')?;
        let name = match version.split_once('@') {
            Some((name, _)) => name,
            None => path.rsplit('/').next()?,
        };
        Some(Self {
            of: name.to_owned(),
            target: text("/target/name")?,
            executable: text("/executable")?,
            manifest,
        })
    }

    /// Runs it until its first test fails, or runs for a minute: a defect may make a loop endless. The others have nothing to
    /// add then.
    fn run(&self) -> Result<()> {
        let started = Instant::now();
        let mut running = self
            .command()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.executable))?;
        let lines = running.stdout.take().map(|output| BufReader::new(output).lines());
        let mut sum = None;
        let mut broken = None;
        for line in lines.into_iter().flatten().map_while(std::result::Result::ok) {
            sum = sum.or_else(|| line.strip_prefix("test result: ok. ").map(str::to_owned));
            broken = Broken::of(&line);
            if broken.is_some() {
                let _ = running.kill();
                break;
            }
        }
        let ended = running
            .wait()
            .map_err(|error| format!("{}: {error}", self.executable))?;
        let name = format!("{} {}", self.of, self.target);
        match broken {
            Some(Broken::Failed(test)) => {
                self.show(&test);
                return Err(format!("test {test} of {name}"));
            }
            Some(Broken::Hangs(test)) => {
                return Err(format!(
                    "test {test} of {name} runs for over a minute: it does not end, or the machine is busy"
                ));
            }
            None if !ended.success() => return Err(format!("tests of {name}: {ended}")),
            None => {}
        }
        let passed = sum.as_deref().and_then(|sum| sum.split(';').next());
        println!(
            "{name}: {}, {:.1} s",
            passed.unwrap_or("passed"),
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Runs one test once more, and prints what it says.
    fn show(&self, test: &str) {
        if let Ok(output) = self.command().args(["--exact", test]).output() {
            println!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }

    fn command(&self) -> Command {
        let folder = Path::new(&self.manifest).parent().unwrap_or(Path::new("."));
        let mut command = Command::new(&self.executable);
        command
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder)
            .env("INSTA_UPDATE", "no")
            .stdin(Stdio::null());
        command
    }
}

/// Why a test program need not go on.
#[derive(Debug, PartialEq)]
enum Broken {
    /// This test failed.
    Failed(String),
    /// This test runs for longer than any test may.
    Hangs(String),
}

impl Broken {
    /// What a line of a test program says.
    fn of(line: &str) -> Option<Self> {
        let test = line.strip_prefix("test ")?;
        if let Some(name) = test.strip_suffix(" ... FAILED") {
            return Some(Self::Failed(name.to_owned()));
        }
        let (name, _) = test.split_once(" has been running for over ")?;
        Some(Self::Hangs(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_says_what_is_broken() {
        let failed = Broken::Failed("a::b".to_owned());
        assert_eq!(Broken::of("test a::b ... FAILED"), Some(failed));
        let hangs = Broken::Hangs("a::b".to_owned());
        assert_eq!(
            Broken::of("test a::b has been running for over 60 seconds"),
            Some(hangs)
        );
        for fine in ["test a::b ... ok", "test result: FAILED. 1 passed", "running 2 tests"] {
            assert_eq!(Broken::of(fine), None);
        }
    }
}
