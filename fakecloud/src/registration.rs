//! The fake cloud as a driver that registers itself with machine controllers, in addition to the one that controllers
//! dial.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use futures::future::join_all;
use mcm_driver::Driver;
use mcm_driver::channel;
use mcm_driver::registration::{Ended, Registrant};
use mcm_driver::tls::{Tls, TlsFiles};
use tokio_util::sync::CancellationToken;

/// Pause before the next registration.
const AGAIN: Duration = Duration::from_secs(1);
/// Pause after a rejection, which only a user can resolve.
const REFUSED: Duration = Duration::from_secs(10);

/// Machine controllers with which the cloud registers as a driver.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registration with machine controllers")]
pub struct RegisterOptions {
    /// A machine controller that accepts registrations of drivers: grpc://HOST:PORT on loopback, grpcs://HOST:PORT
    /// anywhere; separate several with commas
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub register_with: Vec<String>,
    /// Provider of the machine classes that the cloud serves
    #[arg(long, value_name = "KIND", default_value = "fakecloud")]
    pub register_kind: String,
    /// Authorities that sign the controllers' certificates (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["register_tls_cert", "register_tls_key"])]
    pub register_tls_ca: Option<PathBuf>,
    /// The certificate for the controllers (PEM)
    #[arg(long, value_name = "FILE", requires = "register_tls_ca")]
    pub register_tls_cert: Option<PathBuf>,
    /// The private key of --register-tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "register_tls_ca")]
    pub register_tls_key: Option<PathBuf>,
    /// Name in the controllers' certificates; default: the host of the address
    #[arg(long, value_name = "NAME", requires = "register_tls_ca")]
    pub register_tls_server_name: Option<String>,
}

impl RegisterOptions {
    /// Checks the addresses.
    ///
    /// # Errors
    /// The first invalid one.
    pub fn check(&self) -> anyhow::Result<()> {
        for address in &self.register_with {
            channel::check_address(address, self.tls().as_ref()).context("--register-with")?;
        }
        Ok(())
    }

    fn tls(&self) -> Option<Tls> {
        let files = TlsFiles {
            ca: self.register_tls_ca.clone()?,
            cert: self.register_tls_cert.clone()?,
            key: self.register_tls_key.clone()?,
        };
        Some(Tls {
            files,
            server_name: self.register_tls_server_name.clone(),
        })
    }

    /// Registers with all controllers, again and again, until `token` is cancelled.
    pub async fn run(&self, driver: impl Driver + 'static, token: &CancellationToken) {
        let name = format!("fakecloud {}", std::process::id());
        let registrant = Registrant::new(driver, &self.register_kind, &name);
        let all = self
            .register_with
            .iter()
            .map(|address| self.keep_registered(&registrant, address));
        tokio::select! {
            biased;
            () = token.cancelled() => {}
            _ = join_all(all) => token.cancelled().await,
        }
    }

    async fn keep_registered<D: Driver + 'static>(&self, registrant: &Registrant<D>, address: &str) {
        let channel = match channel::patient(address, self.tls()) {
            Ok(channel) => channel,
            Err(error) => {
                tracing::error!(%error, "cannot register with machine controllers");
                return;
            }
        };
        loop {
            let ended = registrant
                .run(channel.clone(), || tracing::info!(address, "registered as a driver"))
                .await;
            tracing::warn!(address, reason = %ended, "not registered; again soon");
            let pause = match ended {
                Ended::Broken(_) => AGAIN,
                Ended::Refused(_) => REFUSED,
            };
            tokio::time::sleep(pause).await;
        }
    }
}
