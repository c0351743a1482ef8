//! EndpointSlices of Services that have a selector: the addresses of its pods, by port and family,
//! at most a hundred a slice (kubernetes/kubernetes, endpointslice reconciler).
//!
//! One file an idea: which endpoint a pod is, and how endpoints are spread over slices. Topology
//! hints are not given.

mod decide;
mod endpoint;

#[cfg(test)]
mod tests;

pub use decide::{MANAGED_BY, MANAGER, SERVICE, View, decide};
