//! The controllers that a Kubernetes control plane runs beside its API server, as far as machine
//! controllers depend on them.
//!
//! One folder a controller, each cut in three: what has been observed, a pure decision, and a shell
//! that watches, asks the decision and acts. They speak to the API server through a `kube::Client`
//! alone, so they run in process, in virtual time, and beside a real API server. What must not live
//! here: anything that knows of machines or of the embedded server's inside.

mod schedule;
mod watch;

pub mod node_lifecycle;
