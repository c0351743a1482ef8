//! Tests of the public machine API: fields, definitions, examples.

#[cfg(test)]
mod definitions;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod fields;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod schemas;
