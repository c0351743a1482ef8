//! How this process reaches its clusters: clients, checks at the start, and the recorder of events.
//!
//! What must not live here: what is read or written about machines, sets and deployments, and when.

mod clients;
mod event_recorder;
mod preflight;

pub(crate) use self::clients::{CONTROLLER_AGENT, ELECTION_AGENT, Layers, RateLimit, layered};
pub use self::clients::{client, from_options};
pub(crate) use self::event_recorder::EventRecorder;
pub use self::preflight::{check_clusters, check_driver};
