//! Volumes: binding claims to volumes, keeping both while they are used, and attaching volumes to the
//! nodes of their pods.
pub mod fit;
