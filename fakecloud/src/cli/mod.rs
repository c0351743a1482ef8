//! The commands with which a user controls a running cloud: `fakecloud vms`, `vm`, `faults`, `zone`, `quota`,
//! `capacity`, `audit`, `ledger`.
//!
//! This module holds flags, calls of the control contract, and output; no behaviour of the cloud.

mod describe;
mod faults;
mod folder;
mod ledger;
mod output;
mod running;
#[cfg(test)]
mod tests;
mod vms;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use mcm_driver::channel;
use mcm_driver::tls::{Tls, TlsFiles};
use tonic::transport::Channel;

pub use self::describe::describe_error;
use crate::JournalError;
use crate::inspect::InspectError;
use crate::proto::cloud_client::CloudClient;

/// Timeout of one call.
const LIMIT: Duration = Duration::from_secs(30);
/// Maximum size of a response: a page of the log or a list of VMs.
const ANSWER: usize = 256 << 20;

/// The control address of `fakecloud serve` without flags.
const DEFAULT_ADDRESS: &str = "grpc://127.0.0.1:7300";

type Client = CloudClient<Channel>;

/// Address and certificates of the cloud.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// Control address of the cloud: grpc://HOST:PORT on loopback, grpcs://HOST:PORT with certificates. The default is
    /// the cloud of the `drydock up` that runs in this folder, else grpc://127.0.0.1:7300
    #[arg(long, env = "FAKECLOUD_CLOUD", value_name = "ADDRESS", global = true)]
    cloud: Option<String>,
    /// Certificates of the authorities that sign the cloud's certificate (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    tls_ca: Option<PathBuf>,
    /// This client's certificate (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    tls_key: Option<PathBuf>,
    /// The name in the cloud's certificate, if it differs from the address
    #[arg(long, value_name = "NAME", global = true)]
    tls_server_name: Option<String>,
}

/// A command with its connection flags.
#[derive(Args, Debug)]
pub struct With<T: Args> {
    #[command(flatten)]
    what: T,
    #[command(flatten)]
    connection: Connection,
}

/// A command with subcommands.
#[derive(Args, Debug)]
pub struct Nested<T: Subcommand> {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    what: T,
}

/// A command for a running cloud.
#[derive(Debug, Subcommand)]
pub enum Control {
    /// Lists VMs
    Vms(With<vms::List>),
    /// An action on a VM
    Vm(Nested<vms::Action>),
    /// Fault rules of calls
    Faults(Nested<faults::Action>),
    /// Failures of zones
    Zone(Nested<ledger::Zone>),
    /// Quotas of VMs
    Quota(Nested<ledger::Limits>),
    /// Capacities of VMs
    Capacity(Nested<ledger::Limits>),
    /// Shows the log of all calls, commands and transitions
    Audit(With<ledger::Audit>),
    /// Searches for illegal states, and fails if there are any; or checks and repairs the files of a ledger
    Ledger(With<ledger::Ledger>),
}

impl Control {
    /// Performs the command, and writes its output to `out`.
    ///
    /// # Errors
    /// One line, when the cloud cannot be reached or rejects the call.
    pub async fn perform(self, out: &mut impl Write) -> anyhow::Result<()> {
        if let Self::Ledger(With {
            what: ledger::Ledger {
                folder: Some(action), ..
            },
            ..
        }) = self
        {
            return action.perform(out);
        }
        let connection = self.connection().clone();
        let (address, tls) = connection.place()?;
        let mut client = client(&address, tls)?;
        let done = match self {
            Self::Vms(list) => list.what.perform(&mut client, out).await,
            Self::Vm(vm) => vm.what.perform(&mut client, out).await,
            Self::Faults(faults) => faults.what.perform(&mut client, out).await,
            Self::Zone(zone) => zone.what.perform(&mut client, out).await,
            Self::Quota(limits) => limits.what.perform(ledger::QUOTA, &mut client, out).await,
            Self::Capacity(limits) => limits.what.perform(ledger::CAPACITY, &mut client, out).await,
            Self::Audit(audit) => audit.what.perform(&mut client, out).await,
            Self::Ledger(ledger) => ledger.what.perform(&mut client, out).await,
        };
        done.map_err(|error| match error.downcast_ref::<tonic::Status>() {
            Some(status) => anyhow!(describe_error(&address, status)),
            None => error,
        })
    }

    fn connection(&self) -> &Connection {
        match self {
            Self::Vms(with) => &with.connection,
            Self::Vm(nested) => &nested.connection,
            Self::Faults(nested) => &nested.connection,
            Self::Zone(nested) => &nested.connection,
            Self::Quota(nested) | Self::Capacity(nested) => &nested.connection,
            Self::Audit(with) => &with.connection,
            Self::Ledger(with) => &with.connection,
        }
    }
}

impl Connection {
    /// The address of the cloud, and the files for mutual TLS.
    pub(crate) fn place(&self) -> anyhow::Result<(String, Option<Tls>)> {
        let tls = match (&self.tls_ca, &self.tls_cert, &self.tls_key) {
            (Some(ca), Some(cert), Some(key)) => Some(Tls {
                files: TlsFiles {
                    ca: ca.clone(),
                    cert: cert.clone(),
                    key: key.clone(),
                },
                server_name: self.tls_server_name.clone(),
            }),
            (None, None, None) => None,
            _ => bail!("--tls-ca, --tls-cert and --tls-key must be given together"),
        };
        match (&self.cloud, tls) {
            (Some(address), tls) => Ok((address.clone(), tls)),
            (None, Some(_)) => bail!("--tls-ca, --tls-cert and --tls-key need --cloud grpcs://HOST:PORT"),
            (None, None) => Ok(running::find(Path::new("."))?.unwrap_or_else(|| (DEFAULT_ADDRESS.to_owned(), None))),
        }
    }
}

fn client(address: &str, tls: Option<Tls>) -> anyhow::Result<Client> {
    let channel = channel::channel(address, tls).map_err(|error| anyhow!("--cloud: {error}"))?;
    Ok(CloudClient::new(channel).max_decoding_message_size(ANSWER))
}

/// The exit status of a failed command: 2 if the ledger's folder could not be checked or repaired, else 1.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<InspectError>() {
        None | Some(InspectError::Nothing { .. } | InspectError::Journal(JournalError::Contradictory { .. })) => 1,
        Some(_) => 2,
    }
}

/// One call, with a timeout.
async fn call<T>(call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>) -> anyhow::Result<T> {
    let answer = tokio::time::timeout(LIMIT, call).await;
    let answer = answer.with_context(|| format!("the cloud did not respond within {} s", LIMIT.as_secs()))?;
    Ok(answer?.into_inner())
}
