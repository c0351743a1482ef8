//! The quota controller: caches in, status writes out.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};

use super::{Reason, count};
use crate::{Action, Change, Controller, Kind, ObjectKey, Plan, Queue, Transition, View};

/// A burst of changes in a namespace is one count, this long after the first of them: a count reads all pods of the
/// namespace.
const PAUSE: SignedDuration = SignedDuration::from_millis(100);

/// The resource quota controller.
#[derive(Debug)]
pub struct Quotas;

impl Controller for Quotas {
    type Key = ObjectKey;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([
            Kind::ResourceQuota,
            Kind::Pod,
            Kind::Service,
            Kind::PersistentVolumeClaim,
        ])
    }

    /// A quota can count objects of any kind.
    fn needs_all_metadata(&self) -> bool {
        true
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        let quotas = &view.caches.resource_quotas;
        if change.of::<ResourceQuota>().is_some() {
            queue.add(change.key.clone());
        }
        if quotas.is_empty() || !matters(change) {
            return;
        }
        let soon = view.now.saturating_add(PAUSE).unwrap_or(Timestamp::MAX);
        for (key, _) in quotas.in_namespace(&change.key.namespace) {
            queue.add_at(key.clone(), soon);
        }
    }

    fn decide(&mut self, key: &ObjectKey, view: View<'_>) -> Plan<Reason> {
        let Some(quota) = view.caches.resource_quotas.get(key) else {
            return Plan::nothing();
        };
        match count::status(quota, view.caches) {
            Some(status) => {
                let mut quota = (**quota).clone();
                quota.status = Some(status);
                Plan::act(Reason::Outdated, Action::replace_status(&quota))
            }
            None => Plan::nothing(),
        }
    }
}

/// Whether a change can change a count. Of most kinds that is a creation or a deletion.
fn matters(change: &Change) -> bool {
    if change.before().is_none() || change.after().is_none() {
        return true;
    }
    let pods = change.of::<Pod>().is_some_and(|pods| {
        let status = |pod: &Pod| {
            let status = pod.status.as_ref();
            status.map(|status| (status.phase.clone(), status.qos_class.clone()))
        };
        differ(pods, |pod| &pod.spec) || pods.before.map(status) != pods.after.map(status)
    });
    let services = change.of::<Service>();
    let claims = change.of::<PersistentVolumeClaim>();
    pods || services.is_some_and(|services| differ(services, |service| &service.spec))
        || claims.is_some_and(|claims| differ(claims, |claim| &claim.spec))
}

fn differ<K, P: PartialEq>(change: Transition<'_, K>, part: impl Fn(&K) -> &P) -> bool {
    change.before.map(&part) != change.after.map(&part)
}
