//! The program from outside: over sockets, killed, flooded, and with invalid input; and the table of its faults.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod authorities;
mod crashes;
mod folder;
mod hostile;
mod mutations;
mod old_spellings;
mod process;
mod served;
mod table;
