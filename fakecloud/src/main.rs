//! The program `fakecloud`.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clock::Clock;
use fakecloud::certificates::{Certificates, Subject};
use fakecloud::cli::{Control, exit_code};
use fakecloud::registration::RegisterCommand;
use fakecloud::remediation::RemediateCommand;
use fakecloud::serve::{ServeOptions, serve};
use runtime::signals::Termination;
use terminal::{OutputFlags, colors_on_stderr, failure_on_stderr, is_quiet, is_verbose};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// A fake cloud with simulated kubelets, and a driver for machine controllers.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves a cloud over gRPC until SIGTERM, SIGINT, SIGQUIT or SIGHUP
    Serve(Box<ServeOptions>),
    /// Registers a running cloud with machine controllers, as a driver in a separate process
    Register(Box<RegisterCommand>),
    /// Repairs VMs for which a MachineHealthCheck created a request, as a controller in a separate process
    Remediate(Box<RemediateCommand>),
    /// Creates certificates for gRPC over mutual TLS: three Secrets as YAML on standard output, or files
    Certificates(CertificatesOptions),
    /// Writes man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        folder: PathBuf,
    },
    #[command(flatten)]
    Control(Control),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  fakecloud certificates --namespace machines | kubectl apply -f -")]
struct CertificatesOptions {
    /// Namespace of the fake cloud's Service and of the Secrets
    #[arg(long)]
    namespace: String,
    /// Name of the Service; the Secrets are NAME-server-tls, NAME-client-tls (machine controllers) and NAME-control-tls
    /// (fault and control commands)
    #[arg(long, default_value = "fakecloud")]
    name: String,
    /// Validity in days
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// Write ca.crt, control-ca.crt, and .crt and .key of server, client and control into this folder instead
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = terminal::parse::<Arguments>().unwrap_or_else(|error| error.exit());
    arguments.output.apply();
    let result = match arguments.command {
        Command::Serve(options) => start(|token| serve(*options, token)),
        Command::Register(command) => start(|token| async move { command.run(token).await }),
        Command::Remediate(command) => start(|token| async move { command.run(token).await }),
        Command::Certificates(options) => certificates(options),
        Command::Man { folder } => write_man_pages(&folder),
        Command::Control(control) => run_control(control),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", failure_on_stderr(&format!("fakecloud: {error:#}")));
            ExitCode::from(exit_code(&error))
        }
    }
}

fn write_man_pages(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command().disable_help_subcommand(true), folder))
        .with_context(|| format!("cannot write man pages to {}", folder.display()))
}

fn certificates(options: CertificatesOptions) -> anyhow::Result<()> {
    let subject = Subject {
        name: options.name,
        namespace: options.namespace,
        days: options.days,
    };
    let certificates = Certificates::issue(subject, Clock::wall().now())?;
    match options.output {
        Some(folder) => certificates.write(&folder)?,
        None => std::io::stdout()
            .write_all(certificates.yaml()?.as_bytes())
            .context("cannot write to standard output")?,
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn run_control(control: Control) -> anyhow::Result<()> {
    // Collects the output first, so that a pipe that closes early does not interrupt the command.
    let mut text = Vec::new();
    let done = control.perform(&mut text).await;
    match std::io::stdout().lock().write_all(&text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to standard output"),
        Ok(()) | Err(_) => done,
    }
}

#[tokio::main]
async fn start<F>(run: impl FnOnce(CancellationToken) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let level = match (is_quiet(), is_verbose()) {
        (true, _) => "warn",
        (false, true) => "debug",
        (false, false) => "info",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colors_on_stderr());
    tracing_subscriber::registry()
        .with(lines.with_filter(filter.and(filter_fn(logs::shows_no_payload))))
        .init();
    let token = CancellationToken::new();
    tokio::select! {
        result = run(token.clone()) => result,
        result = ended(token.clone()) => result,
    }
}

/// Cancels `token` at the first signal; fails at the second one.
async fn ended(token: CancellationToken) -> anyhow::Result<()> {
    let mut termination = Termination::listen()?;
    for _ in 0..2 {
        termination.next().await;
        if token.is_cancelled() {
            break;
        }
        token.cancel();
    }
    anyhow::bail!("stopped by a second signal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_the_help_of_each_command_has_an_example() {
        Arguments::command().debug_assert();
        assert_eq!(
            terminal::commands_without_examples(&Arguments::command()),
            Vec::<String>::new()
        );
    }
}
