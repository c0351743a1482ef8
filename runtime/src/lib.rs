//! Building blocks of Kubernetes controllers, independent of machines.

pub mod backoff;
pub mod codec;
pub mod decode;
pub mod election;
pub mod error;
pub mod events;
pub mod kube_config;
pub mod lean;
pub mod ownership;
pub mod reach;
pub mod selector;
pub mod signals;
pub mod time;
pub mod timers;
pub mod watch;
