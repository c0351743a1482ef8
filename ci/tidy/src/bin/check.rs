//! `make check`: the format, and the tests of the crates that the working tree's change concerns. Each test program runs as
//! soon as it is built, beside the rest of the build; the first that fails ends everything.
//!
//! `check [COMMIT]` compares with another commit than HEAD.
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // a command that prints, and measures its own wall time

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidy::affected::{affected, test_programs};

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
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
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
    let count = build_and_test(&crates, test_programs(&metadata, &crates))?;
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
/// the `wanted` ones of `crates`; after the last of them the build ends, too.
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
        let tested = run_all(&programs, crates, wanted);
        if tested.as_ref().map_or(true, |count| *count == wanted) {
            let _ = build.kill();
        }
        drop(programs);
        tested
    });
    let build = build.wait().map_err(|error| format!("cargo: {error}"))?;
    let tested = tested?;
    match tested == wanted || build.success() {
        true => Ok(tested),
        false => Err("the build".to_owned()),
    }
}

/// Runs `wanted` programs as they are built: of those that are there, one of the crate that comes first in `crates`.
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
                let concerned = rank(&program).map(|rank| (rank, program));
                built += usize::from(concerned.is_some());
                pending.extend(concerned);
            }
            Err(_) => is_building = false,
        }
    }
    Ok(count)
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

    /// Runs it until its first test fails, or takes longer than any test may: a defect may make a loop endless.
    fn run(&self) -> Result<()> {
        let started = Instant::now();
        let mut running = self
            .command()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.executable))?;
        let output = running.stdout.take().ok_or("a test program has no output")?;
        let (said, lines) = channel();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
            // The receiver is gone once a test has failed.
            lines
                .map(|line| said.send(line))
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
                (NOTICED + PATIENCE).as_secs()
            )),
            Verdict::Ended(_) if !ended.success() => Err(format!("tests of {name}: {ended}")),
            Verdict::Ended(passed) => {
                println!("{name}: {passed}, {:.1} s", started.elapsed().as_secs_f64());
                Ok(())
            }
        }
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

/// After how long a test program says that a test still runs.
const NOTICED: Duration = Duration::from_secs(60);
/// How long such a test may go on: none takes longer than 20 s, on a machine that is not busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a test program went.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Its output ended: how many tests passed.
    Ended(String),
    /// This test failed.
    Failed(String),
    /// This test runs for longer than any test may.
    Hangs(String),
}

/// What one line of a test program says.
#[derive(Debug, PartialEq)]
enum Line<'a> {
    Passed(&'a str),
    Failed(&'a str),
    StillRuns(&'a str),
    Sum(&'a str),
    Other,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Self {
        if let Some(sum) = line.strip_prefix("test result: ok. ") {
            return Self::Sum(sum.split(';').next().unwrap_or(sum));
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

/// Reads the output of a test program until it ends, or need not go on.
fn watch(lines: &Receiver<String>) -> Verdict {
    let mut passed = "passed".to_owned();
    let mut late: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => match Line::of(&line) {
                Line::Failed(test) => return Verdict::Failed(test.to_owned()),
                Line::Passed(test) => drop(late.remove(test)),
                Line::StillRuns(test) => drop(late.insert(test.to_owned(), Instant::now())),
                Line::Sum(sum) => sum.clone_into(&mut passed),
                Line::Other => {}
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Verdict::Ended(passed),
        }
        if let Some((test, _)) = late.iter().find(|(_, since)| since.elapsed() > PATIENCE) {
            return Verdict::Hangs(test.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_test_program_says_how_a_test_went() {
        assert_eq!(Line::of("test a::b ... FAILED"), Line::Failed("a::b"));
        assert_eq!(Line::of("test a::b ... ok"), Line::Passed("a::b"));
        assert_eq!(
            Line::of("test a::b has been running for over 60 seconds"),
            Line::StillRuns("a::b")
        );
        assert_eq!(Line::of("test result: ok. 3 passed; 0 failed"), Line::Sum("3 passed"));
        for other in [
            "test a::b ... ignored",
            "test result: FAILED. 1 passed",
            "running 2 tests",
        ] {
            assert_eq!(Line::of(other), Line::Other, "{other}");
        }
    }

    #[test]
    fn the_first_failure_ends_the_reading() {
        let (say, lines) = channel();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test b ... FAILED",
            "test c ... FAILED",
        ] {
            say.send(line.to_owned()).unwrap();
        }
        assert_eq!(watch(&lines), Verdict::Failed("b".to_owned()));
    }
}
