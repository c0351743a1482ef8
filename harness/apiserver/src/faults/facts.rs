//! What a rule may know of a request.

use std::fmt;

use super::Verb;

/// What rules can match of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The user's name.
    pub client: String,
    /// The user agent; empty where there is none.
    pub agent: String,
    /// What the request does; `None`: a method that has no verb.
    pub verb: Option<Verb>,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural; empty for a path that is no resource.
    pub resource: String,
    /// The subresource; empty for none.
    pub subresource: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The object's name; empty for none.
    pub object: String,
    /// How old an answer may be.
    pub freshness: Freshness,
    /// The path, without the query.
    pub path: String,
}

/// As `mcm create machines.machine.sapcloud.io default/m-1`.
impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = self.verb.map_or("?", Verb::word);
        write!(f, "{} {verb} ", self.client)?;
        if self.resource.is_empty() {
            return f.write_str(&self.path);
        }
        f.write_str(&self.resource)?;
        for (mark, text) in [('.', &self.group), ('/', &self.subresource), (' ', &self.namespace)] {
            if !text.is_empty() {
                write!(f, "{mark}{text}")?;
            }
        }
        if !self.object.is_empty() {
            let mark = if self.namespace.is_empty() { ' ' } else { '/' };
            write!(f, "{mark}{}", self.object)?;
        }
        Ok(())
    }
}

/// How old what a read answers may be, by its `resourceVersion` and `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// It must be up to date, or the request is no read.
    #[default]
    Newest,
    /// Not older than that revision; 0: as old as it likes.
    NotOlderThan(u64),
    /// Exactly that revision, or the one of a continue token.
    Exact,
}
