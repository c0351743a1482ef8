//! Files that outlive their process: readable only for their owner, and made of lines whose damage is noticed.
//!
//! The crate knows files and lines; it must not know what they contain.

pub mod lines;
pub mod private_files;
