//! Faults: each action happens exactly as declared, in process and over a socket.

mod admin;
mod connections;
mod reads;
mod refusals;
mod table;
mod watches;
mod world;
