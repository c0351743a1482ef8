//! `make check`: checks the format and runs the tests of the crates that the working tree's changes affect. Each test
//! program starts as soon as it is built, in parallel with the rest of the build. The first failure ends the check.
//!
//! `check [COMMIT]` compares with that commit instead of HEAD.
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // a command that prints, and measures its own wall time

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidy::affected::{affected, test_programs};

/// The crate whose tests run whole scenarios for minutes; it runs last.
const SLOW: &str = "e2e";

type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let started = Instant::now();
    let base = std::env::args().nth(1).unwrap_or_else(|| "HEAD".to_owned());
    let checked = check(&base);
    let seconds = started.elapsed().as_secs_f64();
    match checked {
        Ok(summary) => {
            println!("check passed after {seconds:.0} s: {summary}");
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
            "no changes since {base}; `make check BASE=COMMIT` compares with another commit"
        ));
    }
    let metadata = output(
        "cargo",
        &["metadata", "--no-deps", "--offline", "--format-version", "1"],
    )?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let crates = affected(&metadata, &paths);
    println!(
        "{} files differ from {base}; testing {}",
        paths.len(),
        crates.join(", ")
    );
    let format = Command::new("cargo").args(["fmt", "--all", "--check"]).status();
    if !format.is_ok_and(|status| status.success()) {
        return Err("format: run `cargo fmt --all`".to_owned());
    }
    let count = build_and_test(&crates, test_programs(&metadata, &crates))?;
    Ok(format!("format and {count} test programs"))
}

/// The files that differ from a commit, including new ones, relative to the workspace.
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

/// Builds all tests of the workspace, so that every crate has the same features as in `make test`, and runs the
/// `wanted` ones of `crates`. Stops the build after the last of them.
fn build_and_test(crates: &[String], wanted: usize) -> Result<usize> {
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
    let tests_run = std::thread::scope(|scope| {
        scope.spawn(move || {
            for line in BufReader::new(messages).lines().map_while(std::result::Result::ok) {
                let program = serde_json::from_str(&line)
                    .ok()
                    .and_then(|message| Program::of(&message));
                // The receiver is dropped after a test failure.
                if program.is_some_and(|program| built.send(program).is_err()) {
                    return;
                }
            }
        });
        let tests_run = run_all(&programs, crates, wanted);
        if tests_run.as_ref().map_or(true, |count| *count == wanted) {
            let _ = build.kill();
        }
        drop(programs);
        tests_run
    });
    let build = build.wait().map_err(|error| format!("cargo: {error}"))?;
    let tests_run = tests_run?;
    match tests_run == wanted || build.success() {
        true => Ok(tests_run),
        false => Err("the build failed".to_owned()),
    }
}

/// Runs `wanted` programs as they are built; of the available ones, first those of the crate that comes first in
/// `crates`.
fn run_all(programs: &Receiver<Program>, crates: &[String], wanted: usize) -> Result<usize> {
    let rank = |program: &Program| crates.iter().position(|name| *name == program.of);
    let (mut pending, mut is_building, mut built, mut count) = (Vec::new(), true, 0, 0);
    while is_building || !pending.is_empty() {
        let mut next = programs.try_recv();
        let may_run = |(_, program): &(usize, Program)| !is_building || built == wanted || program.of != SLOW;
        let ready = pending.iter().enumerate().filter(|(_, entry)| may_run(entry));
        let first = ready.min_by_key(|(_, (rank, _))| *rank).map(|(index, _)| index);
        if let (Err(_), Some(index)) = (&next, first) {
            pending.swap_remove(index).1.run()?;
            count += 1;
            if count == wanted {
                break;
            }
            continue;
        }
        if matches!(next, Err(TryRecvError::Empty)) {
            next = programs.recv().map_err(|_| TryRecvError::Disconnected);
        }
        match next {
            Ok(program) => {
                let affected_program = rank(&program).map(|rank| (rank, program));
                built += usize::from(affected_program.is_some());
                pending.extend(affected_program);
            }
            Err(_) => is_building = false,
        }
    }
    Ok(count)
}

/// A test program built by cargo.
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

    /// Runs the program until its first test fails, or until a test exceeds the time limit: a defect can cause an
    /// endless loop.
    fn run(&self) -> Result<()> {
        let started = Instant::now();
        let mut running = self
            .command()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.executable))?;
        let output = running.stdout.take().ok_or("a test program has no output")?;
        let (output_lines, lines) = channel();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
            // The receiver is dropped after a test failure.
            lines
                .map(|line| output_lines.send(line))
                .take_while(std::result::Result::is_ok)
                .count()
        });
        let verdict = watch(&lines);
        drop(lines);
        if !matches!(verdict, Verdict::Ended(_)) {
            let _ = running.kill();
        }
        let ended = running
            .wait()
            .map_err(|error| format!("{}: {error}", self.executable))?;
        let _ = reader.join();
        let name = format!("{} {}", self.of, self.target);
        match verdict {
            Verdict::Failed(test) => {
                self.show(&test);
                Err(format!("test {test} of {name}"))
            }
            Verdict::Hangs(test) => Err(format!(
                "test {test} of {name} takes longer than {} s",
                (REPORTED_AFTER + TIME_LIMIT).as_secs()
            )),
            Verdict::Ended(_) if !ended.success() => Err(format!("tests of {name}: {ended}")),
            Verdict::Ended(passed) => {
                println!("{name}: {passed}, {:.1} s", started.elapsed().as_secs_f64());
                Ok(())
            }
        }
    }

    /// Runs one test again and prints its output.
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

/// The time after which a test program reports that a test is still running.
const REPORTED_AFTER: Duration = Duration::from_secs(60);
/// The time limit after that report. On an idle machine no test takes longer than 20 s.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The result of a test program.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The output ended; contains the number of passed tests.
    Ended(String),
    /// This test failed.
    Failed(String),
    /// This test exceeds the time limit.
    Hangs(String),
}

/// One parsed line of a test program's output.
#[derive(Debug, PartialEq)]
enum Line<'a> {
    Passed(&'a str),
    Failed(&'a str),
    StillRuns(&'a str),
    Summary(&'a str),
    Other,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Self {
        if let Some(summary) = line.strip_prefix("test result: ok. ") {
            return Self::Summary(summary.split(';').next().unwrap_or(summary));
        }
        let Some(test) = line.strip_prefix("test ") else {
            return Self::Other;
        };
        if let Some((name, _)) = test.split_once(" has been running for over ") {
            return Self::StillRuns(name);
        }
        match test.rsplit_once(" ... ") {
            Some((name, "ok")) => Self::Passed(name),
            Some((name, "FAILED")) => Self::Failed(name),
            _ => Self::Other,
        }
    }
}

/// Reads the output of a test program until it ends or the verdict is known.
fn watch(lines: &Receiver<String>) -> Verdict {
    let mut passed = "passed".to_owned();
    let mut overdue: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => match Line::of(&line) {
                Line::Failed(test) => return Verdict::Failed(test.to_owned()),
                Line::Passed(test) => drop(overdue.remove(test)),
                Line::StillRuns(test) => drop(overdue.insert(test.to_owned(), Instant::now())),
                Line::Summary(summary) => summary.clone_into(&mut passed),
                Line::Other => {}
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Verdict::Ended(passed),
        }
        if let Some((test, _)) = overdue.iter().find(|(_, since)| since.elapsed() > TIME_LIMIT) {
            return Verdict::Hangs(test.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_test_program_are_parsed() {
        assert_eq!(Line::of("test a::b ... FAILED"), Line::Failed("a::b"));
        assert_eq!(Line::of("test a::b ... ok"), Line::Passed("a::b"));
        assert_eq!(
            Line::of("test a::b has been running for over 60 seconds"),
            Line::StillRuns("a::b")
        );
        assert_eq!(
            Line::of("test result: ok. 3 passed; 0 failed"),
            Line::Summary("3 passed")
        );
        for other in [
            "test a::b ... ignored",
            "test result: FAILED. 1 passed",
            "running 2 tests",
        ] {
            assert_eq!(Line::of(other), Line::Other, "{other}");
        }
    }

    #[test]
    fn the_first_failure_ends_the_output() {
        let (sender, lines) = channel();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test b ... FAILED",
            "test c ... FAILED",
        ] {
            sender.send(line.to_owned()).unwrap();
        }
        assert_eq!(watch(&lines), Verdict::Failed("b".to_owned()));
    }
}
