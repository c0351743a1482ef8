//! The scenarios through the command line: several seeds, every crash point, a defect, replay, files, and
//! invalid input.

// Test helpers are not test functions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admission;
mod apiserver;
mod campaigns;
mod command_line;
mod crashes;
mod dashboard;
#[path = "../shared/dashboard_client.rs"]
mod dashboard_client;
mod dashboard_faults;
mod demo;
mod determinism;
mod documents;
mod driver_suite;
mod drydock;
mod embedded;
mod examples;
mod existing;
mod exits;
mod files;
mod grafana;
mod inert;
mod init;
mod json_schema;
mod kept_data;
mod leftovers;
mod misses;
mod nodes;
mod own_kinds;
mod play;
mod policies;
mod preservation_consumers;
mod product;
mod programs;
mod proxies;
mod records;
mod registration;
mod regressions;
mod release;
mod replay;
mod reports;
mod roles;
mod scenarios;
mod schemas;
mod screenshots;
mod shrink;
mod stop;
mod up;
mod vm;
