//! Records the hits of the API server's fault rules in the trace.

use ::sim::Trace;
use apiserver::observe::{Commit, DeliveryRecord, FaultRecord, Observer, RequestRecord};

use super::audit::Audit;

/// An observer that passes everything to the audit, and faults to the trace.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    pub(super) audit: Audit,
    pub(super) trace: Trace,
}

impl Observer for Traced {
    fn commit(&self, commit: &Commit<'_>) {
        self.audit.commit(commit);
    }

    fn request(&self, record: &RequestRecord<'_>) {
        self.audit.request(record);
    }

    fn watch_opened(&self, client: &str) {
        self.audit.watch_opened(client);
    }

    fn watch_ended(&self, client: &str) {
        self.audit.watch_ended(client);
    }

    fn delivery(&self, record: &DeliveryRecord<'_>) {
        self.audit.delivery(record);
    }

    fn fault(&self, record: &FaultRecord<'_>) {
        self.audit.fault(record);
        let hit = format!("{} by rule {}", record.action, record.rule);
        self.trace.fault(&record.facts.to_string(), &hit);
    }
}
