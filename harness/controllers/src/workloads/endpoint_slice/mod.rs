//! The EndpointSlice controller for Services with a selector: the addresses of their pods, by port and address
//! family, at most a hundred per slice (kubernetes/kubernetes, endpointslice reconciler).
//!
//! Files: the endpoint of a pod, and the distribution of endpoints over slices. Topology hints are not set.

mod decide;
mod endpoint;

#[cfg(test)]
mod tests;

pub use decide::{MANAGED_BY, MANAGER, SERVICE, View, decide};
