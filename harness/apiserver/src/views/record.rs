//! The record of one write.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::Rule;
use crate::faults::Verb;

/// A write, and what its client had been sent when the request arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteRecord {
    /// Counts the writes of all clients whose writes are recorded, from 1, in the order of their arrival.
    pub number: u64,
    /// When the request arrived.
    pub at: Timestamp,
    /// The user's name.
    pub client: String,
    /// The user agent; empty if absent.
    pub agent: String,
    /// The verb.
    pub verb: Verb,
    /// The qualified resource: `pods`, `machines.machine.sapcloud.io`.
    pub resource: String,
    /// The subresource; empty for none.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name; empty for a collection, and for a creation that failed.
    pub name: String,
    /// The HTTP code of the response; `None`: the client got no response, because a fault broke the connection.
    pub code: Option<u16>,
    /// The revision of the object after the write; `None` if the write changed nothing.
    pub revision: Option<u64>,
    /// The written object; `None` for a creation and for a collection.
    pub object: Option<SentObject>,
    /// The kinds that the client lists or watches and of which it had not been sent all changes.
    pub kinds: Vec<SentKind>,
    /// The changes that the client had not been sent and that contradict the write.
    pub contradictions: Vec<Contradiction>,
}

/// The written object as the client had been sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SentObject {
    /// The client had been sent the changes of the object up to this revision; `None`: it was never sent the object.
    pub sent: Option<u64>,
    /// The newest revision of the object before the write.
    pub newest: Option<u64>,
    /// The number of changes of the object between the two, without the client's own.
    pub behind: u64,
}

/// A kind that the client lists or watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SentKind {
    /// The qualified resource.
    pub resource: String,
    /// The namespace; empty for all.
    pub namespace: String,
    /// The label and field selector; empty for all.
    pub selector: String,
    /// Lists and watches had sent the changes up to this revision.
    pub sent: u64,
    /// The revision of the newest change.
    pub newest: u64,
    /// The number of changes between the two: the age of the view.
    pub behind: u64,
    /// How many of these are the client's own writes.
    pub own: u64,
    /// Whether older changes are no longer recorded, so that `behind` is a lower limit.
    pub at_least: bool,
    /// Whether the written object is of this kind, is the controller owner of a changed object, or is owned by one.
    pub related: bool,
}

/// A change that contradicts a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contradiction {
    /// The rule by which it contradicts the write.
    pub rule: Rule,
    /// The revision of the change.
    pub revision: u64,
    /// The qualified resource of the changed object.
    pub resource: String,
    /// The namespace of the changed object.
    pub namespace: String,
    /// The name of the changed object.
    pub name: String,
    /// The change: `became Ready`, `was deleted`.
    pub change: String,
}

impl WriteRecord {
    /// Whether the write had an effect, whatever its response: a response may be lost, or a fault replaces it.
    pub fn is_done(&self) -> bool {
        self.revision.is_some()
    }

    /// Whether the client had not been sent a change by another client: of the written object, or of a related kind.
    pub fn is_stale(&self) -> bool {
        self.object.is_some_and(|object| object.behind > 0)
            || self.kinds.iter().any(|kind| kind.related && kind.behind > kind.own)
    }

    /// The oldest view of a related kind.
    pub fn oldest_view(&self) -> Option<&SentKind> {
        let related = self.kinds.iter().filter(|kind| kind.related);
        related.max_by_key(|kind| (kind.behind.saturating_sub(kind.own), kind.behind))
    }

    /// `pods/eviction` or `pods`.
    fn target(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

/// `namespace/name`, or one of them.
fn path(namespace: &str, name: &str) -> String {
    match (namespace, name) {
        ("", name) => name.to_owned(),
        (namespace, "") => namespace.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// For instance `write 812 (delete pods default/x) was based on a view of pods 37 revisions old and contradicts revision
/// 401 (pods default/x became Ready)`.
impl fmt::Display for WriteRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, verb, .. } = self;
        let object = path(&self.namespace, &self.name);
        write!(f, "write {number} ({verb} {} {object})", self.target())?;
        match (self.oldest_view(), self.object) {
            (Some(kind), _) if kind.behind > 0 => write!(f, " was based on {kind}")?,
            (_, Some(object)) if object.behind > 0 => {
                write!(
                    f,
                    " was based on a view of the object {} old",
                    revisions(object.behind, false)
                )?;
            }
            _ => f.write_str(" was based on a current view")?,
        }
        for (index, contradiction) in self.contradictions.iter().enumerate() {
            let joint = if index == 0 { " and contradicts" } else { "," };
            write!(f, "{joint} {contradiction}")?;
        }
        Ok(())
    }
}

fn revisions(count: u64, at_least: bool) -> String {
    let least = if at_least { "at least " } else { "" };
    let unit = if count == 1 { "revision" } else { "revisions" };
    format!("{least}{count} {unit}")
}

/// For instance `a view of pods 37 revisions old (2 of them its own)`.
impl fmt::Display for SentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let old = revisions(self.behind, self.at_least);
        write!(f, "a view of {} {old} old", self.resource)?;
        match self.own {
            0 => Ok(()),
            own => write!(f, " ({own} of them its own)"),
        }
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = path(&self.namespace, &self.name);
        write!(
            f,
            "revision {} ({} {object} {})",
            self.revision, self.resource, self.change
        )
    }
}
