//! What clients may rely on, through the front ends.

mod clients;
mod cluster;
mod definitions;
mod https;
mod requests;
mod watches;
