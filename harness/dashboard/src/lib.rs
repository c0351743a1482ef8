//! The dashboard of a running world: its model, its faults, and the HTTP server of its page.
//!
//! [`LiveWorld`] is the model: observations change it, and readers ask for what changed since a number. [`faults`] decides
//! what a button does; [`server`] serves the page and its data on loopback, and passes faults to an [`Executor`]. Nothing
//! here knows how observations are made and how faults are performed. [`Player`] paces a simulated world as the page asks.

mod active;
pub mod entity;
mod executor;
pub mod faults;
mod feed;
mod guard;
mod playback;
mod player;
mod readers;
pub mod server;
mod session;
mod settings;
mod world;

pub use self::active::ActiveFault;
pub use self::executor::{Executor, PerformError};
pub use self::feed::Changes;
pub use self::guard::Token;
pub use self::playback::{Arrival, RunEnd};
pub use self::player::{BeginError, Change, PlayedRun, Player, RunHandle};
pub use self::session::PlanError;
pub use self::settings::Settings;
pub use self::world::{LiveWorld, Shared, Timeline};
