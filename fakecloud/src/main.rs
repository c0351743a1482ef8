//! The program `fakecloud`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fakecloud::serve::{ServeOptions, serve};
use tokio::signal::unix::{SignalKind, signal};
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
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves a cloud over gRPC until SIGTERM or SIGINT
    Serve(Box<ServeOptions>),
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Serve(options) = Arguments::parse().command;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(lines.with_filter(filter.and(filter_fn(logs::shows_no_payload))))
        .init();
    let token = CancellationToken::new();
    let result = tokio::select! {
        result = serve(*options, token.clone()) => result,
        result = ended(token.clone()) => result,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fakecloud: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Cancels `token` at the first signal; at the second ends at once.
async fn ended(token: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    for _ in 0..2 {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if token.is_cancelled() {
            break;
        }
        token.cancel();
    }
    anyhow::bail!("ended by a second signal")
}
