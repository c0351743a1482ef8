//! A fake cloud: VMs that boot, fail and disappear on demand, simulated kubelets on them, and a driver for machine
//! controllers.
//!
//! [`Fakecloud`] gives the pure [`model`] a clock and makes it accessible in process or over gRPC. The rules of the
//! cloud's behaviour are in [`model`], those of kubelets in `kubelet`.

mod bind;
pub mod certificates;
pub mod cli;
mod cloud_controller;
mod config;
pub mod csi;
pub mod glob;
mod journal;
pub mod kubelet;
mod metrics;
pub mod model;
mod probes;
pub mod registration;
pub mod remediation;
mod rpc;
pub mod serve;
mod syntax;
mod tls;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use clock::{Clock, Pulses, Seed};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use config::{
    AuditSettings, BootDelay, CloudControllerSettings, Config, ConfigError, KubeletSettings, MachineType, read_rules,
};
pub use fakecloud_api::Delay;
pub use fakecloud_api::{DurationText, FaultRule};
pub use journal::{
    AuditLimits, Damage, JournalError, LaterVersion, Loss, Place, Reason, Step, Unrecoverable, Writer, inspect,
};
pub use model::{DuplicateCreates, Token};
pub use rpc::{ControlService, FakeDriver, calling_as, message_of_rule};
pub use syntax::is_zone;

use self::config::Settings;
use self::journal::{Found, Journal, Unsafe};
use self::kubelet::Kubelets;
use self::model::{Cloud, Snapshot, StateError};

/// The generated messages, client and server of `proto/fakecloud.proto`.
#[allow(clippy::all, clippy::pedantic, missing_docs, missing_debug_implementations)]
#[rustfmt::skip]
pub mod proto {
    include!("proto/drydock.fakecloud.v1.rs");
}

/// `proto/fakecloud.proto` as an encoded `FileDescriptorSet`, for reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!("proto/descriptor.bin");
/// The CSI driver name of this cloud's PersistentVolumes.
pub const CSI_DRIVER: &str = "csi.fakecloud.drydock";
/// The key in a machine class's Secret that every call requires.
pub const API_TOKEN: &str = "apiToken";
/// The value of [`API_TOKEN`] that is rejected as expired.
pub const EXPIRED_TOKEN: &str = "expired";
/// The label of simulated kubelets' Nodes, on which pods only appear to run.
pub const SIMULATED: &str = "node.drydock.dev/simulated";

/// A fake cloud. Clones share it.
#[derive(Clone)]
pub struct Fakecloud(Arc<Shared>);

struct Shared {
    cloud: Mutex<Cloud>,
    /// The number of the log's last record; wakes followers of the log.
    last: watch::Sender<u64>,
    settings: Settings,
    clock: Clock,
    kubelets: Kubelets,
    /// Creation time of the ledger, and the ID of this cloud.
    opened: Timestamp,
    instance: String,
    /// `None`: the ledger does not outlive the process.
    journal: Option<Journal>,
    /// Where healthy kubelets announce pulses.
    pulses: OnceLock<Pulses>,
}

/// Why a cloud cannot be restored from a folder.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The files cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Their content is invalid.
    #[error(transparent)]
    State(#[from] StateError),
}

/// The ID of a cloud.
fn instance_of(seed: &Seed, opened: Timestamp) -> String {
    let mut stream = seed.stream(&format!("instance/{}", opened.as_nanosecond()));
    stream.text(12, b"0123456789abcdef")
}

impl fmt::Debug for Fakecloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fakecloud")
            .field("records", &*self.0.last.borrow())
            .finish_non_exhaustive()
    }
}

impl Fakecloud {
    /// An empty cloud. [`Config::check`] must have accepted `config`.
    pub fn new(config: Config, clock: Clock, seed: Seed) -> Self {
        let opened = clock.now();
        let instance = instance_of(&seed, opened);
        let settings = config.settings();
        Self(Arc::new(Shared {
            cloud: Mutex::new(Cloud::new(settings.cloud.clone(), seed, opened)),
            last: watch::Sender::new(0),
            settings,
            clock,
            kubelets: Kubelets::default(),
            opened,
            instance,
            journal: None,
            pulses: OnceLock::new(),
        }))
    }

    /// A cloud that is restored from the ledger in a folder and continues it. Changes are durable only while the writer
    /// runs.
    ///
    /// # Errors
    /// The folder cannot be used, another process uses it, or its files are damaged.
    pub fn open(config: Config, clock: Clock, seed: Seed, folder: &Path) -> Result<(Self, Writer), OpenError> {
        let Found {
            journal,
            writer,
            state,
            records,
        } = Journal::open(folder, config.audit.limits())?;
        let now = clock.now();
        let state = state.unwrap_or_else(|| Snapshot::empty(instance_of(&seed, now), now));
        let (opened, instance) = (state.opened, state.instance.clone());
        let settings = config.settings();
        let cloud = Cloud::restored(settings.cloud.clone(), seed, state, records, now)?;
        let last = cloud.log().last();
        let fakecloud = Self(Arc::new(Shared {
            cloud: Mutex::new(cloud),
            last: watch::Sender::new(last),
            settings,
            clock,
            kubelets: Kubelets::default(),
            opened,
            instance,
            journal: Some(journal),
            pulses: OnceLock::new(),
        }));
        Ok((fakecloud, writer))
    }

    /// Waits until all changes so far are durable; returns at once without a folder.
    pub(crate) async fn settled(&self) -> Result<(), Unsafe> {
        match &self.0.journal {
            Some(journal) => journal.settled().await,
            None => Ok(()),
        }
    }

    /// A driver that calls this cloud directly.
    pub fn driver(&self) -> FakeDriver {
        FakeDriver::new(self.clone())
    }

    /// The gRPC server of the driver contract, for a listener or for calls in process.
    pub fn driver_server(
        &self,
    ) -> mcm_driver::proto::driver_server::DriverServer<mcm_driver::server::DriverService<FakeDriver>> {
        mcm_driver::server::DriverService::new(self.driver()).into_server()
    }

    /// The gRPC server of the control contract, for a listener or for calls in process.
    pub fn control_server(&self) -> proto::cloud_server::CloudServer<ControlService> {
        proto::cloud_server::CloudServer::new(ControlService::new(self.clone()))
    }

    /// Runs the simulated kubelets, the cloud controller and the storage until `token` is cancelled. Dropping the
    /// future kills them; the next run picks up the existing VMs. Only one run at a time is allowed.
    pub async fn run(&self, client: kube::Client, token: CancellationToken) {
        let settings = self.0.settings.clone();
        let kubelets = kubelet::run(self.clone(), settings.kubelet, client.clone(), token.clone());
        let controller = async {
            if let Some(settings) = settings.cloud_controller {
                cloud_controller::run(self.clone(), settings, client.clone(), token.clone()).await;
            }
        };
        let storage = async {
            if let Some(settings) = settings.csi {
                csi::run(self.clone(), settings, client.clone(), token.clone()).await;
            }
        };
        tokio::join!(biased; kubelets, controller, storage);
    }

    /// Runs VM transitions on time without kubelets, until `token` is cancelled.
    pub async fn run_without_kubelets(&self, token: CancellationToken) {
        let mut changes = self.changes();
        loop {
            let next = self.step(|cloud, now| {
                cloud.advance(now);
                cloud.next_deadline()
            });
            let clock = self.clock();
            tokio::select! {
                () = token.cancelled() => return,
                _ = changes.changed() => {}
                () = clock.sleep_until(next.unwrap_or(Timestamp::MAX)), if next.is_some() => {}
            }
        }
    }

    /// The running kubelets.
    pub(crate) fn kubelets(&self) -> &Kubelets {
        &self.0.kubelets
    }

    /// Creation time of the ledger.
    pub(crate) fn opened(&self) -> Timestamp {
        self.0.opened
    }

    /// Lets healthy kubelets announce pulses under the uids of their Nodes instead of renewing their Leases every few
    /// seconds. Must be called once, before they run.
    #[must_use]
    pub fn with_pulses(self, pulses: Pulses) -> Self {
        self.0.pulses.get_or_init(|| pulses);
        self
    }

    pub(crate) fn pulses(&self) -> Option<Pulses> {
        self.0.pulses.get().cloned()
    }

    /// The ID of this cloud, different from those of all others and of its predecessors.
    pub(crate) fn instance(&self) -> String {
        self.0.instance.clone()
    }

    /// The cloud's clock.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Runs an action on the model at the current time.
    pub fn step<T>(&self, action: impl FnOnce(&mut Cloud, Timestamp) -> T) -> T {
        let mut cloud = self.0.cloud.lock();
        let now = self.0.clock.now();
        let result = action(&mut cloud, now);
        if let Some(journal) = &self.0.journal {
            journal.take(&mut cloud, &self.0.instance, now);
        }
        let last = cloud.log().last();
        drop(cloud);
        self.0
            .last
            .send_if_modified(|known| std::mem::replace(known, last) != last);
        result
    }

    /// Notifies about growth of the log, with the number of its last record.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.last.subscribe()
    }
}
