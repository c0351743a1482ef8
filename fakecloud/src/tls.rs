//! TLS connections for the gRPC server; `mcm-driver` accepts them, as for every server of its contract.

pub(crate) use mcm_driver::incoming::{Secured, incoming};

#[cfg(test)]
mod tests;
