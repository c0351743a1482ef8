//! Faults: each action happens exactly as declared, in process and over a socket.

mod admin;
mod connections;
mod http2;
mod reads;
mod refusals;
mod table;
mod watches;
mod world;
