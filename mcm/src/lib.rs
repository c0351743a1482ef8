//! mcm
