//! The program `mcm`: flags, logging, signals and exit status around the library.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clock::{Clock, Seed};
use futures::future::{join_all, try_join_all};
use mcm::http::{self, Pages};
use mcm::vm::VmCommand;
use mcm::{Environment, LogFormat, Metrics, Options};
use mcm_driver::Driver;
use mcm_driver::client::GrpcDriver;
use mcm_driver::of_provider::OfProvider;
use mcm_driver::registration::{Listener, Registry};
use runtime::signals::Termination;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Reconciliations allocate and free many small objects; the system's allocator took a third of the CPU time of mcm.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A service that runs concurrently with the controller.
type Serving = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

/// The length of the session strings with which registered drivers authenticate.
const SESSION_LENGTH: usize = 32;
const SESSION_ALPHABET: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// How long pending HTTP responses may take when the process ends.
const HTTP_GRACE: Duration = Duration::from_millis(300);
/// How long the process may take to end in order after a signal.
const STOP_LIMIT: Duration = Duration::from_millis(1800);
/// The exit status of a process that does not end in order after a signal.
const INTERRUPTED: i32 = 130;

/// Controls machines: VMs in a cloud that join a Kubernetes cluster as nodes.
///
/// Durations are written as in Go: 300ms, 90s, 10m, 1h30m.
#[derive(Debug, Parser)]
#[command(
    name = "mcm",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Example:\n  mcm --driver=grpc://127.0.0.1:7300 --control-kubeconfig=kubeconfig --target-kubeconfig=kubeconfig \
                  --namespace=default"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Print the CustomResourceDefinitions as YAML, for kubectl apply -f -
    #[command(after_help = "Example:\n  mcm crds | kubectl apply -f -")]
    Crds,
    /// Write man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        folder: PathBuf,
    },
    /// Create, find, initialize or delete one VM by hand, without a Kubernetes cluster
    #[command(subcommand)]
    Vm(Box<VmCommand>),
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let result = match cli.command {
        Some(Command::Crds) => print_crds(),
        Some(Command::Man { folder }) => write_man_pages(&folder),
        Some(Command::Vm(command)) => return vm(&command),
        None => start(cli.options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcm: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Underscores in the names of flags are read as dashes, as in upstream's programs.
fn parse() -> Result<Cli, clap::Error> {
    let arguments: Vec<String> = std::env::args()
        .map(|argument| match argument.strip_prefix("--") {
            Some(flag) => match flag.split_once('=') {
                Some((name, value)) => format!("--{}={value}", name.replace('_', "-")),
                None => format!("--{}", flag.replace('_', "-")),
            },
            None => argument,
        })
        .collect();
    Cli::from_arg_matches(&Cli::command().try_get_matches_from(arguments)?)
}

fn print_crds() -> anyhow::Result<()> {
    use std::io::Write;
    std::io::stdout()
        .write_all(mcm_api::crd::yaml()?.as_bytes())
        .context("the CRDs cannot be printed")
}

fn write_man_pages(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), folder))
        .with_context(|| format!("cannot write man pages to {}", folder.display()))
}

/// Exit status 2: the input is not usable; 1: a driver call failed.
fn vm(command: &VmCommand) -> ExitCode {
    start_log("warn", LogFormat::Text);
    let result = match runtime() {
        Ok(runtime) => runtime.block_on(mcm::vm::run(command)),
        Err(error) => {
            eprintln!("mcm: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcm: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn start(options: Options) -> anyhow::Result<()> {
    options.validate_program()?;
    start_log(detail(options.v), options.log_format);
    let runtime = runtime()?;
    let result = runtime.block_on(serve(options));
    runtime.shutdown_background();
    result
}

/// Single-threaded: the controllers are one future, and waking other threads for their requests has no benefit.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be created")
}

/// The log filter of a verbosity.
fn detail(verbosity: i32) -> &'static str {
    match verbosity {
        0..=1 => "info",
        2..=4 => "info,mcm=debug,mcm_driver=debug,mcm_core=debug",
        _ => "debug,mcm=trace,mcm_driver=trace,mcm_core=trace",
    }
}

/// Whether an environment variable has a value.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn start_log(detail: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(detail));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !is_set("NO_COLOR"));
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter.and(filter_fn(logs::shows_no_payload))))
        .init();
}

async fn serve(options: Options) -> anyhow::Result<()> {
    let cancel = cancelled_by_signals()?;
    let metrics = Metrics::new();
    let serving = pages(&options)?.map(|(address, pages)| {
        let (metrics, cancel) = (metrics.clone(), cancel.clone());
        async move { Ok::<_, mcm::Error>(http::serve(http::bind(address).await?, pages, metrics, cancel)) }
    });
    let serving = try_join_all(serving).await?;
    let mut http = pin!(join_all(serving));
    let mut controller = pin!(control(options, metrics, cancel.clone()));
    tokio::select! {
        result = &mut controller => {
            cancel.cancel();
            // A slow client must not keep the process alive.
            let _ = tokio::time::timeout(HTTP_GRACE, http).await;
            result
        }
        _ = &mut http => controller.await,
    }
}

/// The addresses for probes and metrics.
fn pages(options: &Options) -> anyhow::Result<impl Iterator<Item = (SocketAddr, Pages)> + use<>> {
    let port = u16::try_from(options.port).context("--port")?;
    let address = SocketAddr::new(options.address, port);
    let own = options.metrics_address.map(|address| (address, Pages::Metrics));
    let pages = own.map_or(Pages::All, |_| Pages::Probes);
    Ok([Some((address, pages)), own].into_iter().flatten())
}

async fn control(options: Options, metrics: Metrics, cancel: CancellationToken) -> anyhow::Result<()> {
    let clock = Clock::wall();
    let seed = Seed::from_entropy().map_err(anyhow::Error::msg)?;
    let (driver, serving) = driver(&options, &seed).await?;
    let mut serving = pin!(serving);
    let reached = async {
        let clusters = mcm::from_options(&options).await?;
        mcm::check_clusters(
            &clusters.control,
            clusters.target.as_ref(),
            &options.controllers,
            &clock,
        )
        .await?;
        match options.driver_listen {
            // Drivers may register at any time; until then the machines of their classes report that there is none.
            Some(_) => {}
            None if options.driver.is_empty() => {}
            None => mcm::check_driver(&*driver, &options.driver, &clock).await?,
        }
        anyhow::Ok(clusters)
    };
    let mcm::Clusters {
        control,
        target,
        control_config,
    } = tokio::select! {
        () = cancel.cancelled() => return Ok(()),
        reached = reached => reached?,
        ended = &mut serving => return ended,
    };
    let identity = identity(&seed);
    let environment = Environment {
        control,
        target,
        driver,
        clock,
        seed,
        identity,
        metrics,
        pulses: None,
    };
    tokio::select! {
        result = mcm::run_with_election_thread(options, environment, control_config, cancel) => Ok(result?),
        ended = serving => ended,
    }
}

/// The driver, and the registration service that must run for it, if drivers register.
async fn driver(options: &Options, seed: &Seed) -> anyhow::Result<(Arc<dyn Driver>, Serving)> {
    if options.driver.is_empty() && options.driver_listen.is_none() {
        // Health checks call no driver.
        let mut sessions = seed.stream("driver sessions");
        let unused = Registry::new(move || sessions.text(SESSION_LENGTH, SESSION_ALPHABET));
        return Ok((Arc::new(unused), Box::pin(std::future::pending())));
    }
    let Some(address) = options.driver_listen else {
        let driver = match options.tls() {
            Some(tls) => GrpcDriver::connect_tls(&options.driver, tls)?,
            None => GrpcDriver::connect(&options.driver)?,
        };
        let driver: Arc<dyn Driver> = match options.driver_provider.as_str() {
            "" => Arc::new(driver),
            provider => Arc::new(OfProvider::new(provider, driver)),
        };
        return Ok((driver, Box::pin(std::future::pending())));
    };
    let listener = Listener::bind(address, options.listener_files()).await?;
    tracing::info!(address = %listener.address()?, "drivers can register");
    let mut sessions = seed.stream("driver sessions");
    let registry = Registry::new(move || sessions.text(SESSION_LENGTH, SESSION_ALPHABET));
    let served = registry.clone();
    let serving = async move {
        listener.serve(served).await?;
        anyhow::bail!("drivers are no longer served")
    };
    Ok((Arc::new(registry), Box::pin(serving)))
}

/// The host name and a random suffix, so that a restarted process is a different candidate.
fn identity(seed: &Seed) -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let host = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| read("/proc/sys/kernel/hostname"));
    let host = host
        .as_deref()
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .unwrap_or("mcm");
    format!("{host}_{}", seed.stream("identity").uuid())
}

/// A token that SIGTERM, SIGINT, SIGQUIT and SIGHUP cancel. A second signal ends the process at once, and so does the end
/// of [`STOP_LIMIT`]; the Lease then expires. A separate thread handles the signals, so that a long
/// decision does not delay them.
fn cancelled_by_signals() -> anyhow::Result<CancellationToken> {
    let cancel = CancellationToken::new();
    let runtime = runtime()?;
    let mut termination = {
        let _entered = runtime.enter();
        Termination::listen().context("signals cannot be handled")?
    };
    let token = cancel.clone();
    let wait = async move {
        termination.next().await;
        token.cancel();
        if tokio::time::timeout(STOP_LIMIT, termination.next()).await.is_err() {
            eprintln!("mcm: the work did not end within {STOP_LIMIT:?} of the signal");
        }
        std::process::exit(INTERRUPTED);
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(wait))
        .context("signals cannot be handled")?;
    Ok(cancel)
}
