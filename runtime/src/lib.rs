//! What every controller shell needs, whatever it controls. Knows Kubernetes, not machines.

pub mod codec;
pub mod watch;
