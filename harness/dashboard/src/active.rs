//! The faults that last until they are ended: the page lists them, and ends them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::faults::FaultPlan;

/// A fault that was begun and has not ended, for the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveFault {
    /// Its number, by which the page ends it.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// When it began.
    pub since: Timestamp,
    /// When it ends by itself; `None`: never.
    pub until: Option<Timestamp>,
}

/// The faults that have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct ActiveFaults(BTreeMap<u64, (ActiveFault, Arc<FaultPlan>)>);

impl ActiveFaults {
    /// A fault begins, if it is one that ends.
    pub(crate) fn begin(&mut self, number: u64, at: Timestamp, plan: &Arc<FaultPlan>) {
        if plan.end.is_empty() {
            return;
        }
        let fault = ActiveFault {
            number,
            title: plan.title.clone(),
            since: at,
            until: plan.lasts.and_then(|lasts| at.checked_add(lasts).ok()),
        };
        self.0.insert(number, (fault, Arc::clone(plan)));
    }

    /// A fault ends: what has to be done; `None`: it has ended already.
    pub(crate) fn end(&mut self, number: u64) -> Option<Arc<FaultPlan>> {
        self.0.remove(&number).map(|(_, plan)| plan)
    }

    /// A fault, if it has not ended.
    pub(crate) fn get(&self, number: u64) -> Option<(ActiveFault, Arc<FaultPlan>)> {
        self.0.get(&number).cloned()
    }

    /// Those that end by themselves, with the times at which they do.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (Timestamp, &FaultPlan)> {
        let all = self.0.values();
        all.filter_map(|(fault, plan)| Some((fault.until?, plan.as_ref())))
    }

    /// All of them, in the order in which they began.
    pub(crate) fn all(&self) -> Vec<ActiveFault> {
        self.0.values().map(|(fault, _)| fault.clone()).collect()
    }
}
