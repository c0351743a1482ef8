//! The stage `kind`: a real cluster in Docker, in which mcm and fakecloud run as pods from locally built images.
//!
//! This module contains the cluster's life cycle, images, deployment, runs of scenarios in separate namespaces, and the
//! collection of logs and objects after a failure. It does not interpret scenarios or present results.

mod cleanup;
mod cluster;
mod collect;
mod docker;
mod error;
mod forward;
mod images;
mod limit;
mod lock;
mod manifests;
mod nodes;
mod pod_state;
mod pods;
mod progress;
mod removal;
mod renewals;
mod run;
mod system;
mod tar;
mod tools;
mod world;

use clock::NoEntropy;
use fakecloud::certificates::CertificateError;
use mcm_driver::channel::AddressError;

pub(crate) use self::cluster::delete_left;
pub use self::cluster::{Cluster, KindOptions, leftovers, unavailable};
pub use self::docker::EngineError;
pub use self::error::{ClusterError, DeleteError};
pub use self::images::{ImageError, ImageNames, build_images};
pub use self::pods::PodError;
pub use self::progress::Progress;
pub use self::run::Up;
pub use self::tools::{CallError, MissingTools};
pub use self::world::NODE_GRACE;
use crate::LeaderError;
use crate::cloud::CloudError;
use crate::deploy::DeployError;
use crate::objects::ObjectError;
use crate::plane::FileError;
use crate::ports::PortError;
use crate::setup::SetupError;

/// Errors of using and cleaning up a kind cluster.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// Programs are missing.
    #[error(transparent)]
    Tools(#[from] MissingTools),
    /// A request to the Docker engine fails.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Programs and the Docker engine are missing.
    #[error("{tools}; {engine}")]
    ToolsAndEngine {
        /// The programs.
        #[source]
        tools: MissingTools,
        /// The engine.
        engine: Box<EngineError>,
    },
    /// A program fails.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The cluster cannot be created, used or deleted.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The image of a program is not available.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Pods do not become ready, or are not deleted.
    #[error(transparent)]
    Pods(#[from] PodError),
    /// The leader of mcm is unknown.
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// The start fails, and its logs are kept.
    #[error("{source} (logs are in {})", logs.display())]
    Logged {
        /// The error of the start.
        source: Box<KindError>,
        /// The folder of the logs.
        logs: std::path::PathBuf,
    },
    /// The machine API or its prerequisites cannot be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Objects of `deploy/` cannot be written or removed.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// Objects of a run cannot be removed.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// fakecloud cannot be configured or reached.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// The address of fakecloud is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Certificates for fakecloud cannot be created.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// A constructed object cannot be serialized as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The operating system provides no random numbers.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// No port is free.
    #[error(transparent)]
    Port(#[from] PortError),
}
