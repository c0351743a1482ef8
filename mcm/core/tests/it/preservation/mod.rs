//! Preservation: the rule against a table, and what becomes of it in a machine's plans.

mod beside;
mod drains;
mod hindered;
mod inert;
mod lab;
mod oracle;
mod plans;
mod table;
mod taken_over;
mod whole;
mod words;
