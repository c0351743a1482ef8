//! What is left of runs: a folder for each failure, JUnit XML and JSON for programs.
//!
//! What must not live here: what is printed while runs go on (`cli`).

pub mod folder;
pub mod json;
pub mod junit;
