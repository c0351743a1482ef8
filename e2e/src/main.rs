//! The program `drydock`.

use std::process::ExitCode;

/// Worlds in virtual time make and drop small objects all the while; the system's allocator takes a fifth of the time more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    harness::cli::main(e2e::scenarios, e2e::regressions)
}
