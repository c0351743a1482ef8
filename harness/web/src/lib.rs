//! The HTML report of a run, one file that opens without a server and requests nothing, and the page of the dashboard, which
//! a server serves.
//!
//! `assets/` has the pages: shells, style sheets and small modules, which are ES modules with JSDoc types. [`page`] puts
//! them and a record into one file; [`live_page`] and [`asset`] are the dashboard's files. This crate knows the format of a
//! record, and nothing of how it was made. [`campaign_page`] and [`diff_page`] are pages without scripts.

mod campaign;
mod diff_lanes;
mod diff_page;
mod escape;
mod live;
mod page;
mod script;
mod static_page;
mod table;

pub use self::campaign::campaign_page;
pub use self::diff_page::diff_page;
pub use self::live::{Asset, asset, live_page};
pub use self::page::page;
