//! The stage `kind`: a real cluster in Docker, on which mcm and fakecloud run as pods from images built here.
//!
//! What lives here: the cluster's life, images, deployment, a scenario in a namespace of its own, and what is left for
//! the person when it fails. What must not: what a scenario means, and how results are shown.

mod cleanup;
mod cluster;
mod collect;
mod docker;
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

pub use self::cluster::{Cluster, KindOptions, lacks, leftovers};
pub use self::images::ImageNames;
pub use self::images::files as image_files;
pub use self::progress::Progress;
pub use self::run::Up;
pub use self::world::NODE_GRACE;
