//! The command `fakecloud remediate`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clock::Clock;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use mcm_api::GoDuration;
use mcm_driver::channel;
use tokio_util::sync::CancellationToken;

use super::{ControlledVms, PERIOD, run};
use crate::bind::bind;
use crate::cli::Connection;
use crate::probes;

/// Repairs VMs for which a MachineHealthCheck created a FakeCloudRemediation.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  fakecloud remediate --kubeconfig control.kubeconfig --namespace machines")]
pub struct RemediateCommand {
    /// Kubeconfig of the cluster that contains the machines; absent: the service account of this pod
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the machines
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Time between two looks at the requests (duration)
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(PERIOD))]
    period: GoDuration,
    /// Where to serve /healthz and /readyz over plain HTTP; nowhere without it
    #[arg(long, value_name = "HOST:PORT")]
    health_address: Option<SocketAddr>,
    #[command(flatten)]
    connection: Connection,
}

impl RemediateCommand {
    /// Runs until `token` is cancelled.
    ///
    /// # Errors
    /// If the kubeconfig, an address or the certificates cannot be used.
    pub async fn run(self, token: CancellationToken) -> anyhow::Result<()> {
        let config = match &self.kubeconfig {
            None => Config::incluster().context("--kubeconfig is missing, and this is no pod")?,
            Some(path) => {
                let kubeconfig =
                    Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig={}", path.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
            }
        };
        let client = Client::try_from(config)?;
        let (address, tls) = self.connection.place()?;
        let channel = channel::patient(&address, tls).with_context(|| format!("--cloud={address}"))?;
        let vms = ControlledVms::new(channel);
        let probes = match self.health_address {
            Some(address) => Some(bind("--health-address", address).await?),
            None => None,
        };
        let working = run(
            client,
            &self.namespace,
            vms,
            Clock::wall(),
            self.period.0,
            token.clone(),
        );
        match probes {
            Some(listener) => drop(tokio::join!(working, probes::answer(listener, token))),
            None => working.await,
        }
        Ok(())
    }
}
