//! The fake cloud as a driver that registers itself with machine controllers, in addition to the one that controllers
//! dial: from the process of the cloud, or from separate processes.

use std::path::PathBuf;

use anyhow::{Context, bail};
use async_trait::async_trait;
use clap::Args;
use mcm_api::cloud::DriverError;
use mcm_driver::Driver;
use mcm_driver::call::{Call, Handler, Outcome};
use mcm_driver::channel;
use mcm_driver::client::GrpcDriver;
use mcm_driver::registration::Registrant;
use mcm_driver::tls::{Tls, TlsFiles};
use tokio_util::sync::CancellationToken;

use crate::rpc::PROVIDER;

/// Machine controllers with which the cloud registers as a driver.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registration with machine controllers")]
pub struct RegisterOptions {
    /// All replicas of the machine controller: grpc://HOST:PORT on loopback, grpcs://HOST:PORT anywhere, separated by
    /// commas. A name stands for all hosts that it resolves to
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub register_with: Vec<String>,
    /// Provider of the machine classes that the cloud serves
    #[arg(long, value_name = "KIND", default_value = "fakecloud")]
    pub register_kind: String,
    /// Provider-specific kinds of classes that the cloud converts to MachineClasses, separated by commas
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub register_class_kinds: Vec<String>,
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

    /// Keeps the driver registered with all replicas until `token` is cancelled.
    ///
    /// # Errors
    /// An address is invalid.
    pub async fn run(&self, driver: impl Driver + 'static, token: &CancellationToken) -> anyhow::Result<()> {
        if self.register_with.is_empty() {
            token.cancelled().await;
            return Ok(());
        }
        let name = process_name(std::env::var("HOSTNAME").ok(), std::process::id());
        let driver = OfKind {
            kind: self.register_kind.clone(),
            driver,
        };
        let registrant = Registrant::new(driver, &self.register_kind, &name).converting(&self.register_class_kinds);
        let tls = self.tls();
        let staying = registrant.stay_registered(&self.register_with, tls.as_ref());
        tokio::select! {
            biased;
            () = token.cancelled() => Ok(()),
            Err(error) = staying => Err(error).context("--register-with"),
        }
    }
}

/// The name of this process for people. The process id alone is the same in every container.
fn process_name(host: Option<String>, id: u32) -> String {
    match host.filter(|host| !host.is_empty()) {
        Some(host) => format!("fakecloud {host}/{id}"),
        None => format!("fakecloud {id}"),
    }
}

/// Serves the classes of `kind` as those of the cloud.
#[derive(Debug)]
struct OfKind<D> {
    kind: String,
    driver: D,
}

#[async_trait]
impl<D: Driver> Handler for OfKind<D> {
    async fn handle(&self, mut call: Call) -> Result<Outcome, DriverError> {
        if let Some(class) = call
            .class_mut()
            .filter(|class| class.provider.as_ref() == Some(&self.kind))
        {
            class.provider = Some(PROVIDER.to_owned());
        }
        let mut outcome = call.send_to(&self.driver).await?;
        if let Outcome::Class(class) = &mut outcome {
            class.provider = Some(self.kind.clone());
        }
        Ok(outcome)
    }
}

/// The flags of `fakecloud register`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  fakecloud register --cloud grpc://127.0.0.1:7300 --register-with grpc://127.0.0.1:7400"
)]
pub struct RegisterCommand {
    /// The driver of the cloud: grpc://HOST:PORT on loopback, grpcs://HOST:PORT anywhere, with the files of
    /// --register-tls-*
    #[arg(long, value_name = "ADDRESS", default_value = "grpc://127.0.0.1:7300")]
    pub cloud: String,
    /// Registration with machine controllers.
    #[command(flatten)]
    pub register: RegisterOptions,
}

impl RegisterCommand {
    /// Registers a running cloud until `token` is cancelled, as the driver of a real cloud does: from a process of its
    /// own, of which there may be several.
    ///
    /// # Errors
    /// A flag is invalid.
    pub async fn run(&self, token: CancellationToken) -> anyhow::Result<()> {
        if self.register.register_with.is_empty() {
            bail!("--register-with is missing: give the addresses of the machine controller's replicas");
        }
        self.register.check()?;
        let driver = match self.register.tls().filter(|_| channel::is_encrypted(&self.cloud)) {
            Some(tls) => GrpcDriver::connect_tls(
                &self.cloud,
                Tls {
                    server_name: None,
                    ..tls
                },
            ),
            None => GrpcDriver::connect(&self.cloud),
        };
        self.register.run(driver.context("--cloud")?, &token).await
    }
}

#[cfg(test)]
mod tests {
    use clock::{Clock, Seed};
    use mcm_api::MachineClass;
    use serde_json::json;

    use super::*;
    use crate::{Config, Fakecloud};

    fn class(provider: &str) -> MachineClass {
        MachineClass {
            provider: Some(provider.to_owned()),
            ..MachineClass::default()
        }
    }

    #[test]
    fn a_process_is_named_by_its_host_too_if_that_is_known() {
        let name = |host: Option<&str>| process_name(host.map(str::to_owned), 1);
        assert_eq!(name(Some("pod-a")), "fakecloud pod-a/1");
        assert_eq!([name(None), name(Some(""))], ["fakecloud 1", "fakecloud 1"]);
    }

    #[tokio::test]
    async fn classes_of_the_registered_kind_and_of_no_other_are_served() {
        let cloud = Fakecloud::new(Config::default(), Clock::wall(), Seed::new(1));
        let driver = OfKind {
            kind: "my-cloud".to_owned(),
            driver: cloud.driver(),
        };
        let refused = |error: DriverError| error.message.contains("has provider");
        let mut results = Vec::new();
        for provider in ["my-cloud", "other"] {
            let listed = driver.list_machines(class(provider), Default::default()).await;
            results.push(listed.is_err_and(refused));
        }
        assert_eq!(results, [false, true]);
        let old = json!({ "spec": { "machineType": "small", "zone": "z1" } });
        let filled = driver.generate_machine_class(old, MachineClass::default()).await;
        assert_eq!(filled.unwrap().provider.as_deref(), Some("my-cloud"));
    }
}
