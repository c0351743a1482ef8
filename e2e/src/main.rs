//! The program `drydock`.

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::cli::main(e2e::scenarios(), &e2e::regressions())
}
