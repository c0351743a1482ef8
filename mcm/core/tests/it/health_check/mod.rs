//! Health checks: every cell of node, machine, requests, limits and connection, compared with a table of expected outcomes.

mod oracle;
mod table;
