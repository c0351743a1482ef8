//! Faults: each action has its declared effect, in process and on a socket.

mod admin;
mod connections;
mod http2;
mod reads;
mod refusals;
mod table;
mod watches;
pub mod world;
