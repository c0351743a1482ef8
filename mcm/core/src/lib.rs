//! mcm-core
