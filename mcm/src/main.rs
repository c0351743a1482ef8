//! mcm
fn main() {}
