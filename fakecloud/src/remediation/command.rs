//! The command `fakecloud remediate`.

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
    /// Control address of the cloud: grpc://HOST:PORT on loopback
    #[arg(long, value_name = "ADDRESS", default_value = "grpc://127.0.0.1:7300")]
    cloud: String,
    /// Time between two looks at the requests (duration)
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(PERIOD))]
    period: GoDuration,
}

impl RemediateCommand {
    /// Runs until `token` is cancelled.
    ///
    /// # Errors
    /// If the kubeconfig or the address cannot be used.
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
        let channel = channel::patient(&self.cloud, None).with_context(|| format!("--cloud={}", self.cloud))?;
        let vms = ControlledVms::new(channel);
        run(client, &self.namespace, vms, Clock::wall(), self.period.0, token).await;
        Ok(())
    }
}
