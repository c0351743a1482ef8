//! The program as others meet it: over sockets, killed, flooded, and fed with nonsense; and the table of its faults.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crashes;
mod hostile;
mod mutations;
mod old_spellings;
mod process;
mod served;
mod table;
