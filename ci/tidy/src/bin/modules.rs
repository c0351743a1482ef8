//! Prints all module cycles and all opaque signatures: `cargo run -p tidy --bin modules [CRATE…]`.
#![allow(clippy::print_stdout)] // a command that prints

use std::path::Path;
use std::process::{Command, ExitCode};

use tidy::{cycles, signatures, workspace};

fn main() -> ExitCode {
    match print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn print() -> Result<(), String> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let root = Path::new(metadata["workspace_root"].as_str().unwrap_or("."));
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let read = |file: &Path| workspace::read(root, file);
    let crates = workspace::crates(root, &metadata).map_err(|error| error.to_string())?;
    for of in crates {
        if !wanted.is_empty() && !wanted.contains(&of.name) {
            continue;
        }
        let knots = cycles::knots(&of);
        let in_cycles: usize = knots.iter().map(|knot| knot.modules).sum();
        let opaque = signatures::opaque(&of);
        println!(
            "{}: {} modules, {in_cycles} in cycles; {} opaque signatures",
            of.name,
            of.modules.len(),
            opaque.len()
        );
        for knot in knots {
            println!("  {} of {}: {}", knot.modules, knot.within, knot.names(&of));
            if !wanted.is_empty() {
                knot.describe(&of, &read).iter().for_each(|line| println!("    {line}"));
            }
        }
        for found in opaque {
            println!("  {}: {}: {}", found.file, found.name, found.problem);
        }
    }
    Ok(())
}
