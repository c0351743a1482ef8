//! The commands by which a person drives a cloud that runs: `fakecloud vms`, `vm`, `faults`, `zone`, `quota`,
//! `capacity`, `audit`, `ledger`.
//!
//! What lives here: flags, calls of the control contract, and what is printed. What must not: the cloud's behaviour.

mod faults;
mod ledger;
mod output;
#[cfg(test)]
mod tests;
mod vms;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use mcm_driver::channel;
use mcm_driver::tls::{Tls, TlsFiles};
use tonic::transport::Channel;

use crate::proto::cloud_client::CloudClient;

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(30);
/// The largest answer: a page of the log or a list of VMs.
const ANSWER: usize = 256 << 20;

type Client = CloudClient<Channel>;

/// Where the cloud is.
#[derive(Args, Clone, Debug)]
pub struct Connection {
    /// Address of the cloud: grpc://HOST:PORT on loopback, grpcs://HOST:PORT with certificates
    #[arg(
        long,
        env = "FAKECLOUD_CLOUD",
        default_value = "grpc://127.0.0.1:7300",
        value_name = "ADDRESS",
        global = true
    )]
    cloud: String,
    /// Certificates of the authorities that sign the cloud's certificate (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    tls_ca: Option<PathBuf>,
    /// This client's certificate (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", global = true)]
    tls_key: Option<PathBuf>,
    /// The name in the cloud's certificate, where the address has another
    #[arg(long, value_name = "NAME", global = true)]
    tls_server_name: Option<String>,
}

/// A command with its flags.
#[derive(Args, Debug)]
pub struct With<T: Args> {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    what: T,
}

/// A command with commands of its own.
#[derive(Args, Debug)]
pub struct Nested<T: Subcommand> {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    what: T,
}

/// What is asked of a cloud that runs.
#[derive(Debug, Subcommand)]
pub enum Control {
    /// Lists VMs
    Vms(With<vms::List>),
    /// Does something to a VM
    Vm(Nested<vms::Action>),
    /// Rules by which calls fail
    Faults(Nested<faults::Action>),
    /// Failures of zones
    Zone(Nested<ledger::Zone>),
    /// How many VMs the account may have
    Quota(Nested<ledger::Limits>),
    /// For how many VMs there is room
    Capacity(Nested<ledger::Limits>),
    /// Shows the log of all calls, commands and transitions
    Audit(With<ledger::Audit>),
    /// Looks for what there should not be, and fails when there is something
    Ledger(With<ledger::Ledger>),
}

impl Control {
    /// Performs the command, and writes what it tells to `out`.
    ///
    /// # Errors
    /// With one clear line when the cloud cannot be reached or refuses.
    pub async fn perform(self, out: &mut impl Write) -> anyhow::Result<()> {
        let connection = self.connection().clone();
        let mut client = connection.client()?;
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
            Some(status) => connection.refused(status),
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
    fn client(&self) -> anyhow::Result<Client> {
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
            _ => bail!("--tls-ca, --tls-cert and --tls-key go together"),
        };
        let channel = channel::channel(&self.cloud, tls).map_err(|error| anyhow!("--cloud: {error}"))?;
        Ok(CloudClient::new(channel).max_decoding_message_size(ANSWER))
    }

    fn refused(&self, status: &tonic::Status) -> anyhow::Error {
        match status.code() {
            tonic::Code::Unavailable => anyhow!(
                "no cloud answers at {}: start one by `fakecloud serve`, or name another by --cloud ({})",
                self.cloud,
                status.message()
            ),
            _ => anyhow!("{}", status.message()),
        }
    }
}

/// One call, within its limit.
async fn call<T>(call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>) -> anyhow::Result<T> {
    let answer = tokio::time::timeout(LIMIT, call).await;
    let answer = answer.with_context(|| format!("the cloud did not answer within {} s", LIMIT.as_secs()))?;
    Ok(answer?.into_inner())
}
