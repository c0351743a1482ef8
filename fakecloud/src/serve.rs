//! `fakecloud serve`: from flags and configuration file to a running process.
//!
//! This module reads flags, connects to the API server, serves and stops; `listen` opens the listeners. `model` holds the
//! cloud's behaviour.

mod listen;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clock::{Clock, Seed};
use futures::future::try_join_all;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{KubeConfigOptions, Kubeconfig};
use mcm_api::duration::GoDuration;
use mcm_driver::proto::driver_server::DriverServer;
use mcm_driver::server::DriverService;
use runtime::kube_config;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use self::listen::{Apis, Connections, Incoming, Listener};
use crate::config::deprecations;
use crate::metrics::{Counted, Metrics};
use crate::probes::{self, Readiness};
use crate::proto::cloud_server::CloudServer;
use crate::registration::RegisterOptions;
use crate::rpc::client::ClientLayer;
use crate::rpc::settled::SettledLayer;
use crate::{Config, ControlService, DESCRIPTOR, Delay, DuplicateCreates, FakeDriver, Fakecloud};

/// Interval and timeout of probes of clients that follow the log.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Maximum number of concurrent calls of one connection: a client that floods delays only itself.
const CONCURRENCY: usize = 256;
/// Time for calls in flight at the end.
const GRACE: Duration = Duration::from_secs(1);

/// The flags of `fakecloud serve`. A flag overrides the configuration file.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  fakecloud serve --without-kubelets --boot-delay 10s-60s\n  fakecloud serve --kubeconfig ~/.kube/config --data ledger"
)]
pub struct ServeOptions {
    /// Where to serve the driver API for machine controllers and, without --tls-cert and --control-address, the control
    /// API. Without --tls-cert a loopback address; port 0 takes any free port
    #[arg(
        long,
        env = "FAKECLOUD_ADDRESS",
        default_value = "127.0.0.1:7300",
        value_name = "HOST:PORT",
        help_heading = "Addresses"
    )]
    pub address: SocketAddr,
    /// Where to serve /healthz, /readyz and, without --metrics-address, /metrics over plain HTTP; nowhere without it
    #[arg(long, value_name = "HOST:PORT", help_heading = "Addresses")]
    pub health_address: Option<SocketAddr>,
    /// Where to serve /metrics over plain HTTP, instead of --health-address
    #[arg(long, value_name = "HOST:PORT", help_heading = "Addresses")]
    pub metrics_address: Option<SocketAddr>,
    /// Where to serve the control API (faults, VMs, log). With --tls-cert it is served only here; another address than
    /// loopback needs --tls-control-ca
    #[arg(long, value_name = "HOST:PORT", help_heading = "Addresses")]
    pub control_address: Option<SocketAddr>,
    /// The server's certificate (PEM). With it gRPC is encrypted, and every client must show a certificate.
    /// The files are read again for every connection; `fakecloud certificates` creates them
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_client_ca"], help_heading = "TLS")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub tls_key: Option<PathBuf>,
    /// Certificates of the authorities that sign the certificates of machine controllers (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub tls_client_ca: Option<PathBuf>,
    /// Certificates of the authorities that sign the certificates of control clients (PEM). With it --control-address is
    /// encrypted, too, and a certificate of --tls-client-ca is refused there
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "control_address"], help_heading = "TLS")]
    pub tls_control_ca: Option<PathBuf>,
    /// The kubeconfig of the cluster that simulated kubelets join. Without it KUBECONFIG, ~/.kube/config or the
    /// pod's service account
    #[arg(long, value_name = "FILE", help_heading = "Kubelets")]
    pub kubeconfig: Option<PathBuf>,
    /// Serve VMs only: no API server is needed and no Node is registered
    #[arg(long, conflicts_with = "kubeconfig", help_heading = "Kubelets")]
    pub without_kubelets: bool,
    /// A configuration file in YAML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A folder for the ledger, which then outlives the process: every change is on disk before it is answered.
    /// It is created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The seed of all random choices; unpredictable without it
    #[arg(long, value_name = "NUMBER", help_heading = "VMs")]
    pub seed: Option<u64>,
    /// How long a VM is pending: 30s, 10s-60s (range) or 30s~5s (mean and deviation) [default: 2s]
    #[arg(long, value_name = "DELAY", help_heading = "VMs")]
    pub boot_delay: Option<Delay>,
    /// Result of a second creation for a machine: one VM or two [default: one]
    #[arg(long, value_name = "one|two", value_parser = duplicate_creates, help_heading = "VMs")]
    pub duplicate_creates: Option<DuplicateCreates>,
    /// New VMs are Uninitialized until InitializeMachine
    #[arg(long, help_heading = "VMs")]
    pub require_initialize: bool,
    /// Time from a VM's boot to its kubelet's first call, as a Go duration [default: 1s]
    #[arg(long, value_name = "DURATION", help_heading = "Kubelets")]
    pub kubelet_start_delay: Option<GoDuration>,
    /// Period of a kubelet's Lease renewals, as a Go duration [default: 10s]
    #[arg(long, value_name = "DURATION", help_heading = "Kubelets")]
    pub kubelet_lease_period: Option<GoDuration>,
    /// Validity of a Lease, as a Go duration [default: 40s]
    #[arg(long, value_name = "DURATION", help_heading = "Kubelets")]
    pub kubelet_lease_duration: Option<GoDuration>,
    /// Period of a kubelet's writes of an unchanged status, as a Go duration [default: 5m]
    #[arg(long, value_name = "DURATION", help_heading = "Kubelets")]
    pub kubelet_status_period: Option<GoDuration>,
    /// Registration with machine controllers.
    #[command(flatten)]
    pub register: RegisterOptions,
}

fn duplicate_creates(text: &str) -> Result<DuplicateCreates, String> {
    match text {
        "one" => Ok(DuplicateCreates::One),
        "two" => Ok(DuplicateCreates::Two),
        _ => Err("must be one or two".to_owned()),
    }
}

impl ServeOptions {
    /// The configuration from file and flags.
    fn configuration(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            None => Config::default(),
            Some(path) => {
                let name = path.display().to_string();
                let text =
                    std::fs::read_to_string(path).with_context(|| format!("cannot read the configuration {name}"))?;
                let config = Config::from_yaml(&name, &text)?;
                for deprecation in deprecations(&name, &text).iter() {
                    eprintln!("warning: {deprecation}");
                }
                config
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

    /// A client for the API server that kubelets join, after a test call.
    async fn client(&self, metrics: &Metrics) -> anyhow::Result<Option<kube::Client>> {
        if self.without_kubelets {
            return Ok(None);
        }
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path).map_err(|error| anyhow::anyhow!("{error}"))?;
                kube_config::of(kubeconfig, &KubeConfigOptions::default())
                    .await
                    .with_context(|| format!("the kubeconfig {} is not usable", path.display()))?
            }
            None => inferred().await.context(
                "no kubeconfig is given, none is found, and this is no pod with a service account: \
                     use --kubeconfig FILE, or --without-kubelets",
            )?,
        };
        // Failed calls are returned as data, and kubelets retry them by their own rules.
        config.default_retry = false;
        config
            .headers
            .push((USER_AGENT, HeaderValue::from_static(KUBELET_AGENT)));
        let server = config.cluster_url.to_string();
        let client = kube::Client::try_from(config).context("cannot build a Kubernetes client")?;
        let client = metrics.counted(client);
        match runtime::reach::reach(&client, &Clock::wall()).await {
            Ok(_) => Ok(Some(client)),
            Err(error) => bail!("the API server {server} {error}"),
        }
    }
}

/// The user agent of the simulated kubelets. The API server uses the part before the slash as the field manager, which
/// tells them from real ones.
const KUBELET_AGENT: &str = concat!("fakecloud/", env!("CARGO_PKG_VERSION"), " (kubelets)");

/// The configuration by `KUBECONFIG` or `~/.kube/config`, else that of the pod that this process runs in.
async fn inferred() -> anyhow::Result<kube::Config> {
    match Kubeconfig::read() {
        Ok(kubeconfig) => Ok(kube_config::of(kubeconfig, &KubeConfigOptions::default()).await?),
        Err(no_file) => kube_config::in_cluster().map_err(|error| anyhow::anyhow!("{no_file}; {error}")),
    }
}

/// Serves a fake cloud until `token` is cancelled. Prints one line to standard output when it is ready.
///
/// # Errors
/// One line, when the configuration is invalid, the address is in use or the API server does not answer.
pub async fn serve(options: ServeOptions, token: CancellationToken) -> anyhow::Result<()> {
    let config = options.configuration()?;
    options.register.check()?;
    let mut incoming = Incoming::listen(&options).await?;
    let pages = probes::Listeners::bind(options.health_address, options.metrics_address).await?;
    incoming.pages = pages.announcements();
    let seed = match options.seed {
        Some(seed) => Seed::new(seed),
        None => Seed::from_entropy()?,
    };
    let (cloud, writer) = match &options.data {
        Some(folder) => {
            let (cloud, writer) = Fakecloud::open(config, Clock::wall(), seed, folder)?;
            (cloud, Some(writer))
        }
        None => (Fakecloud::new(config, Clock::wall(), seed), None),
    };
    // The journal ends last, so that the last change is written.
    let written = CancellationToken::new();
    let writing = async {
        match writer {
            Some(writer) => writer.run(written.clone()).await.map_err(anyhow::Error::from),
            None => {
                written.cancelled().await;
                Ok(())
            }
        }
    };
    let (metrics, readiness) = (Metrics::new(cloud.clone()), Readiness::default());
    let probes = async {
        pages.serve(readiness.clone(), metrics.clone(), token.clone()).await;
        std::future::pending::<std::convert::Infallible>().await
    };
    let work = Box::pin(work(&options, &cloud, incoming, &metrics, &readiness, &token));
    // Running probes do not keep a finished process alive.
    let serving = async {
        let served = tokio::select! {
            biased;
            result = work => result,
            never = probes => match never {},
        };
        written.cancel();
        served
    };
    tokio::pin!(serving, writing);
    tokio::select! {
        biased;
        served = &mut serving => served.and(writing.await),
        failed = &mut writing => failed,
    }
}

/// Connects to the API server, then answers calls and runs kubelets until `token` is cancelled.
async fn work(
    options: &ServeOptions,
    cloud: &Fakecloud,
    incoming: Incoming,
    metrics: &Metrics,
    readiness: &Readiness,
    token: &CancellationToken,
) -> anyhow::Result<()> {
    let client = tokio::select! {
        biased;
        () = token.cancelled() => return Ok(()),
        client = options.client(metrics) => client?,
    };
    let announcement = incoming.announcement();
    let servers = incoming.listeners.into_iter();
    let server = try_join_all(servers.map(|listener| answer(cloud, metrics, listener, token)));
    let kubelets = async {
        match client {
            Some(client) => cloud.run(client, token.clone()).await,
            None => cloud.run_without_kubelets(token.clone()).await,
        }
    };
    readiness.set(true);
    announce(&announcement)?;
    // Streams that follow the log never end, so the server gets a limited time.
    let ended = async {
        token.cancelled().await;
        readiness.set(false);
        tokio::time::sleep(GRACE).await;
    };
    let serving = async {
        let served = tokio::select! {
            result = server => result.map(|_| ()),
            () = ended => Ok(()),
        };
        token.cancel();
        served
    };
    let registered = Counted::new(cloud.driver(), metrics.clone());
    let registration = options.register.run(registered, token);
    let (served, (), registered) = tokio::join!(serving, kubelets, registration);
    served.and(registered)
}

/// Answers the calls of one listener until `token` is cancelled.
async fn answer(
    cloud: &Fakecloud,
    metrics: &Metrics,
    listener: Listener,
    token: &CancellationToken,
) -> anyhow::Result<()> {
    let Apis { driver, control } = listener.apis;
    let (health, health_server) = tonic_health::server::health_reporter();
    let driver = driver.then(|| DriverService::new(Counted::new(cloud.driver(), metrics.clone())));
    if driver.is_some() {
        health
            .set_serving::<DriverServer<DriverService<Counted<FakeDriver>>>>()
            .await;
    }
    if control {
        health.set_serving::<CloudServer<ControlService>>().await;
    }
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(mcm_driver::DESCRIPTOR)
        .register_encoded_file_descriptor_set(DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .context("the contracts cannot be described")?;
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .concurrency_limit_per_connection(CONCURRENCY)
        .max_concurrent_streams(Some(CONCURRENCY as u32))
        .layer(ClientLayer)
        .layer(SettledLayer(cloud.clone()))
        .add_optional_service(driver.map(DriverService::into_server))
        .add_optional_service(control.then(|| cloud.control_server()))
        .add_service(health_server)
        .add_service(reflection);
    let signal = token.clone().cancelled_owned();
    match listener.connections {
        Connections::Plain(stream) => server.serve_with_incoming_shutdown(stream, signal).await,
        Connections::Tls(stream) => server.serve_with_incoming_shutdown(stream, signal).await,
    }
    .context("the gRPC server failed")
}

fn announce(line: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .context("cannot write to standard output")
}

#[cfg(test)]
mod tests;
