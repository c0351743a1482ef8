//! I20: mcm never causes two pods of one StatefulSet ordinal to live at the same time: none runs while another one of its
//! name has left the API unconfirmed and its VM runs.
//!
//! Not judged while the cloud or the API server violates its own contract.

use super::Check;
use super::check_context::CheckContext;
use super::unconfirmed::{key, runs};
use crate::object::{owner, text, uid};

#[derive(Debug)]
pub(super) struct OnePodOfAnOrdinal;

impl Check for OnePodOfAnOrdinal {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        let pod = context.applied("Pod")?;
        let mut others = context.unconfirmed.iter().filter(|other| other.stateful).peekable();
        others.peek()?;
        let runs = context.rules.byzantine.is_empty() && owner(pod, "StatefulSet").is_some() && runs(pod);
        let key = key(pod);
        let other = others
            .find(|other| other.pod == key && other.uid != uid(pod))
            .filter(|_| runs)?;
        let node = text(pod, "/spec/nodeName");
        Some(format!("{other}; its successor runs on node {node}"))
    }
}
