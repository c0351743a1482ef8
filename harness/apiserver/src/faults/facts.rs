//! The properties of a request that rules can match.

use std::fmt;

use super::Verb;

/// The properties of a request that rules can match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The user's name.
    pub client: String,
    /// The user agent; empty if absent.
    pub agent: String,
    /// The verb; `None` for an HTTP method without a verb.
    pub verb: Option<Verb>,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural; empty for a path that is not a resource.
    pub resource: String,
    /// The subresource; empty for none.
    pub subresource: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The object's name; empty for none.
    pub object: String,
    /// How stale a response may be.
    pub freshness: Freshness,
    /// The path, without the query.
    pub path: String,
}

/// For instance `mcm create machines.machine.sapcloud.io default/m-1`.
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

/// How stale the response to a read may be, from its `resourceVersion` and `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// The response must be consistent, or the request is not a read.
    #[default]
    Newest,
    /// Not older than that revision; 0: any revision.
    NotOlderThan(u64),
    /// Exactly that revision, or that of a continue token.
    Exact,
}
