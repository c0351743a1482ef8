//! What the server has sent to its clients, and how far behind the view is on which a client's write is based.
//!
//! A [`WriteRecord`] compares a write with the changes that had been committed before it and that the client had not
//! been sent. It knows what was sent, not what the client did with it. A client is a user: all connections and
//! processes of one user share a view, so the record can miss a stale write, and does not invent one.
//!
//! `changes` keeps the recent changes, `client` what one client was sent, `contradiction` is the rule; all three are
//! synchronous and know no request. `Views` joins them.

mod changes;
mod client;
mod contradiction;
mod facts;
mod record;
mod tracked;
mod views_of_write;

pub(crate) use client::{Collection, CollectionId};
pub use contradiction::Rule;
pub use record::{Contradiction, SentKind, SentObject, WriteRecord};
pub(crate) use tracked::{ArrivedWrite, ClientId, Received, Target, Views};
