//! The determinism check on worlds: those that depend only on their seed pass, those with another source of order or
//! time fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests count as production code to clippy

mod worlds;

use std::collections::hash_map::RandomState;
use std::process::Command;

use sim::{Run, check_determinism};

const SEEDS: std::ops::Range<u64> = 0..20;

/// Runs the world in its own process, which prints its run (see `a_world_in_its_own_process`).
fn run_in_own_process(seed: u64) -> Run {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_world_in_its_own_process", "--nocapture"])
        .env("SEED", seed.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let marked = |mark: &str| {
        text.lines()
            .filter_map(|line| line.strip_prefix(mark))
            .map(str::to_owned)
            .collect()
    };
    let hashes: Vec<String> = marked("hash ");
    assert_eq!(hashes.len(), 1, "{text}");
    Run {
        hash: hashes.concat(),
        lines: marked("line "),
    }
}

/// `run_in_own_process` runs this test alone and parses its output.
#[test]
fn a_world_in_its_own_process() {
    let seed = std::env::var("SEED").map_or(0, |seed| seed.parse().unwrap());
    let run = worlds::deterministic(seed, worlds::Selects::Unbiased);
    assert_eq!(run.lines.len(), 108, "the trace records every event of the world");
    println!("\nhash {}", run.hash);
    for line in run.lines {
        println!("line {line}");
    }
}

#[test]
fn twenty_seeds_repeat_themselves_and_differ_from_each_other() {
    let report = check_determinism(SEEDS, |seed| worlds::deterministic(seed, worlds::Selects::Biased));
    assert!(report.passed(), "{report}");
    assert_eq!(report.seeds.len(), 20);
}

#[test]
fn twenty_seeds_repeat_themselves_with_unbiased_selects_in_separate_processes() {
    let report = check_determinism(SEEDS, run_in_own_process);
    assert!(report.passed(), "{report}");
}

#[test]
fn the_entropy_of_a_world_does_not_leak_into_the_next() {
    let alone = worlds::deterministic(3, worlds::Selects::Biased);
    worlds::deterministic(4, worlds::Selects::Biased);
    assert_eq!(alone, worlds::deterministic(3, worlds::Selects::Biased));
}

#[test]
fn an_order_by_hash_keys_from_outside_the_simulation_is_detected() {
    let report = check_determinism(SEEDS, |seed| worlds::in_order_of(seed, RandomState::new()));
    assert!(!report.passed());
    let problem = report.problems().remove(0);
    assert!(problem.contains("line "), "the report names the line: {problem}");
}

#[test]
fn an_iteration_over_a_map_keyed_before_seeding_is_detected() {
    let report = check_determinism(SEEDS, |seed| {
        worlds::over_a_map_from_outside(seed, worlds::map_of_names())
    });
    assert!(!report.passed());
}

#[test]
fn an_order_by_the_operating_systems_randomness_is_detected() {
    let outside = clock::Seed::from_entropy().unwrap();
    let mut draws = outside.stream("outside");
    let report = check_determinism(SEEDS, |seed| worlds::delayed_by(seed, draws.below(1_000_000)));
    assert!(!report.passed());
}
