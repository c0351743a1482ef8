//! The machine API as its users meet it: fields, definitions, examples.

mod definitions;
mod fields;
mod samples;
mod schemas;
