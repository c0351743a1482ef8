//! Child processes of a world: each writes a log, and ends with the world.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use clock::Clock;
use tokio::process::{Child, Command};

/// A running program.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts a program whose output goes to a file in `folder`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(name: &str, program: &Path, arguments: &[OsString], folder: &Path) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let output = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        Ok(Self {
            name: name.to_owned(),
            log,
            child,
        })
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// If it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended ({status}): see {}", self.name, self.log.display());
        }
        Ok(())
    }
}

/// A port of the loopback address that no process uses.
///
/// # Errors
/// If there is none.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Waits until `ready` returns a value. `what`: what is waited for.
///
/// # Errors
/// If `limit` is exceeded.
pub async fn wait_for<T, F: Future<Output = anyhow::Result<Option<T>>>>(
    what: &str,
    limit: Duration,
    clock: &Clock,
    mut ready: impl FnMut() -> F,
) -> anyhow::Result<T> {
    let end = clock.now().checked_add(limit)?;
    let mut last = None;
    while clock.now() < end {
        match ready().await {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
    let why = last.map(|error| format!(": {error:#}")).unwrap_or_default();
    bail!("{what} takes longer than {} s{why}", limit.as_secs())
}
