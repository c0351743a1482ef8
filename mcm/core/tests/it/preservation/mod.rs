//! Preservation: the rules compared with a table of expected outcomes, and their effect on a machine's plans.

mod adopted;
mod drains;
mod fencing;
mod full_decisions;
mod inert;
mod lab;
mod obstacles;
mod oracle;
mod plans;
mod precedence;
mod reporting;
mod table;
mod unanswered;
