//! `mcm vm`: one VM by hand, through the driver and without a Kubernetes cluster.
//!
//! Files and flags become a request in pure functions (`input` and the crate `request-files`), the calls are thin (`calls`), and
//! their results become text (`output`). Secret data leaves this module in requests only.

mod calls;
mod error;
mod input;
mod options;
mod output;
#[cfg(test)]
mod tests;

use std::io::Write as _;

pub use error::{InputError, VmError};
pub use options::{ClassFlags, MachineFlags, OutputFormat, VmCommand};

use mcm_driver::client::GrpcDriver;

/// Runs a command and prints its result to standard output.
///
/// # Errors
/// If the input is not usable, if no driver answers, or if a call fails. [`VmError::exit_code`] distinguishes them.
pub async fn run(command: &VmCommand) -> Result<(), VmError> {
    let class = command.class();
    let (address, tls) = class.connection()?;
    let job = input::job(command.action(), &command.sources()?)?;
    mcm_driver::channel::check_connection(&address, tls.clone())
        .await
        .map_err(|error| VmError::Unreachable {
            address: address.clone(),
            reason: error.to_string(),
        })?;
    let driver = match tls {
        Some(tls) => GrpcDriver::connect_tls(&address, tls),
        None => GrpcDriver::connect(&address),
    };
    let driver = driver.map_err(|error| InputError::Driver(error.to_string()))?;
    let outcome = calls::perform(&driver, job, class.timeout.map(|timeout| timeout.0)).await?;
    let text = output::render(&outcome, class.output)?;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(VmError::Print(error.to_string())),
        _ => Ok(()),
    }
}
