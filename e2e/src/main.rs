//! The program `drydock`.

use std::process::ExitCode;

/// Simulated worlds allocate many small objects; with the system allocator a run takes a fifth longer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    harness::cli::main(e2e::scenarios, e2e::regressions)
}
