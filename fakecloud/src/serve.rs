//! `fakecloud serve`: flags and configuration file to a running process.
//!
//! What lives here: reading flags, listening, connecting to the API server, ending. What must not:
//! the cloud's behaviour.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clock::{Clock, Seed};
use kube::config::{KubeConfigOptions, Kubeconfig};
use mcm_api::duration::GoDuration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::{Config, Delay, DuplicateCreates, Fakecloud};

/// How long the API server may take to answer at the start.
const REACH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long calls that are under way may take at the end.
const GRACE: Duration = Duration::from_secs(1);

/// The flags of `fakecloud serve`. A flag wins over the configuration file.
#[derive(Args, Clone, Debug)]
pub struct ServeOptions {
    /// Where to listen for gRPC. A loopback address; port 0 takes any free port
    #[arg(
        long,
        env = "FAKECLOUD_ADDRESS",
        default_value = "127.0.0.1:7300",
        value_name = "HOST:PORT"
    )]
    pub address: SocketAddr,
    /// The kubeconfig of the cluster that simulated kubelets join. Without it KUBECONFIG, ~/.kube/config or the
    /// pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Serve VMs only: no API server is needed and no Node is registered
    #[arg(long, conflicts_with = "kubeconfig")]
    pub without_kubelets: bool,
    /// A configuration file in YAML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The seed of all random choices; unpredictable without it
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// How long a VM is pending: 30s, 10s-60s (range) or 30s~5s (mean and deviation) [default: 2s]
    #[arg(long, value_name = "DELAY")]
    pub boot_delay: Option<Delay>,
    /// What a second creation for a machine does: one VM or two [default: one]
    #[arg(long, value_name = "one|two", value_parser = duplicate_creates)]
    pub duplicate_creates: Option<DuplicateCreates>,
    /// New VMs are Uninitialized until InitializeMachine
    #[arg(long)]
    pub require_initialize: bool,
    /// From a VM's boot to its kubelet's first call, as a Go duration [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub kubelet_start_delay: Option<GoDuration>,
    /// How often a kubelet renews its Lease, as a Go duration [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub kubelet_lease_period: Option<GoDuration>,
    /// For how long a Lease is good, as a Go duration [default: 40s]
    #[arg(long, value_name = "DURATION")]
    pub kubelet_lease_duration: Option<GoDuration>,
    /// How often a kubelet writes an unchanged status, as a Go duration [default: 5m]
    #[arg(long, value_name = "DURATION")]
    pub kubelet_status_period: Option<GoDuration>,
}

fn duplicate_creates(text: &str) -> Result<DuplicateCreates, String> {
    match text {
        "one" => Ok(DuplicateCreates::One),
        "two" => Ok(DuplicateCreates::Two),
        _ => Err("must be one or two".to_owned()),
    }
}

impl ServeOptions {
    /// The configuration that file and flags give together.
    fn configuration(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            None => Config::default(),
            Some(path) => {
                let name = path.display().to_string();
                let text =
                    std::fs::read_to_string(path).with_context(|| format!("cannot read the configuration {name}"))?;
                Config::from_yaml(&name, &text)?
            }
        };
        let set = |field: &mut GoDuration, flag: Option<GoDuration>| *field = flag.unwrap_or(*field);
        set(&mut config.kubelet.start_delay, self.kubelet_start_delay);
        set(&mut config.kubelet.lease_period, self.kubelet_lease_period);
        set(&mut config.kubelet.lease_duration, self.kubelet_lease_duration);
        set(&mut config.kubelet.status_period, self.kubelet_status_period);
        config.boot_delay = self.boot_delay.unwrap_or(config.boot_delay);
        config.duplicate_creates = self.duplicate_creates.unwrap_or(config.duplicate_creates);
        config.require_initialize |= self.require_initialize;
        config.check()?;
        Ok(config)
    }

    /// A client for the API server that kubelets join; checked to answer.
    async fn client(&self) -> anyhow::Result<Option<kube::Client>> {
        if self.without_kubelets {
            return Ok(None);
        }
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path).map_err(|error| anyhow::anyhow!("{error}"))?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                    .await
                    .with_context(|| format!("the kubeconfig {} is not usable", path.display()))?
            }
            None => kube::Config::infer()
                .await
                .context("no kubeconfig is given and none is found: use --kubeconfig FILE, or --without-kubelets")?,
        };
        // Failed calls come back as data and are repeated by the kubelets' own rules.
        config.default_retry = false;
        let server = config.cluster_url.to_string();
        let client = kube::Client::try_from(config).context("cannot build a Kubernetes client")?;
        match tokio::time::timeout(REACH_TIMEOUT, client.apiserver_version()).await {
            Ok(Ok(_)) => Ok(Some(client)),
            Ok(Err(error)) => bail!("the API server {server} cannot be reached: {error}"),
            Err(_) => bail!(
                "the API server {server} does not answer within {} s",
                REACH_TIMEOUT.as_secs()
            ),
        }
    }
}

/// Serves a fake cloud until `token` is cancelled. Prints one line to standard output once it does.
///
/// # Errors
/// With one clear line when the configuration is unusable, the address is taken or the API server
/// does not answer.
pub async fn serve(options: ServeOptions, token: CancellationToken) -> anyhow::Result<()> {
    let config = options.configuration()?;
    if !options.address.ip().is_loopback() {
        bail!(
            "--address {}: only loopback addresses are served, because the connection is not encrypted",
            options.address
        );
    }
    let seed = match options.seed {
        Some(seed) => Seed::new(seed),
        None => Seed::from_entropy().map_err(anyhow::Error::msg)?,
    };
    let listener = TcpListener::bind(options.address)
        .await
        .with_context(|| format!("cannot listen on {}: choose another --address", options.address))?;
    let address = listener.local_addr().context("the listener has no address")?;
    let client = options.client().await?;
    let cloud = Fakecloud::new(config, Clock::wall(), seed);
    let server = Server::builder()
        .add_service(cloud.driver_server())
        .add_service(cloud.control_server())
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), token.clone().cancelled_owned());
    let kubelets = async {
        match client {
            Some(client) => cloud.run(client, token.clone()).await,
            None => cloud.run_without_kubelets(token.clone()).await,
        }
    };
    announce(address)?;
    // Streams that follow the log never end by themselves, so the server gets a limited time.
    let ended = async {
        token.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    let serving = async {
        let served = tokio::select! {
            result = server => result.context("the gRPC server failed"),
            () = ended => Ok(()),
        };
        token.cancel();
        served
    };
    let (served, ()) = tokio::join!(serving, kubelets);
    served
}

fn announce(address: SocketAddr) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "fakecloud serves on {address}; as a driver: grpc://{address}")
        .and_then(|()| output.flush())
        .context("cannot write to standard output")
}
