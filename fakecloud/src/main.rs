//! fakecloud
fn main() {}
