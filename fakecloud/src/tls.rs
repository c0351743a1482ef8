//! TLS connections for the gRPC server; `mcm-driver` accepts them, as it does for whoever serves its contract.

pub(crate) use mcm_driver::incoming::{Secured, incoming};

#[cfg(test)]
mod tests;
