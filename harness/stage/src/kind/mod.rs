//! The stage `kind`: a real cluster in Docker, on which mcm and fakecloud run as pods from images built here.
//!
//! What lives here: the cluster's life, images, deployment, a scenario in a namespace of its own, and what is left for
//! the person when it fails. What must not: what a scenario means, and how results are shown.

mod cleanup;
mod cluster;
mod collect;
mod docker;
mod error;
mod forward;
mod images;
mod manifests;
mod nodes;
mod pods;
mod progress;
mod removal;
mod run;
mod system;
mod tar;
mod tools;
mod world;

use clock::NoEntropy;
use fakecloud::certificates::CertificateError;
use mcm_driver::channel::AddressError;

pub use self::cluster::{Cluster, KindOptions, lacks, leftovers};
pub use self::docker::EngineError;
pub use self::error::{ClusterError, DeleteError};
pub use self::images::{ImageError, ImageNames, files as image_files};
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

/// Why a kind cluster cannot be used, or is not left as it should be.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// Programs are missing.
    #[error(transparent)]
    Tools(#[from] MissingTools),
    /// The Docker engine does not do what is asked for.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Programs are missing, and so is the Docker engine.
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
    /// The cluster does not come up, or is left.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// There is no image of a program.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Pods are not ready, or do not go.
    #[error(transparent)]
    Pods(#[from] PodError),
    /// The leader of mcm is not known.
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// The start fails, and left its logs.
    #[error("{source} (logs are in {})", logs.display())]
    Logged {
        /// Why it fails.
        source: Box<KindError>,
        /// The folder of the logs.
        logs: std::path::PathBuf,
    },
    /// The machine API and what it needs are not installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Objects of `deploy/` are not written, or left.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// Objects of a run are left.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// fakecloud cannot be configured or reached.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// The address of fakecloud is not one.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Certificates of fakecloud are not made.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// An object that is built here has no JSON form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The operating system gives no randomness.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// A file is not written.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no free port.
    #[error(transparent)]
    Port(#[from] PortError),
}
