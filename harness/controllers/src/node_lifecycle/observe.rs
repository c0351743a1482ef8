//! The observations of nodes and leases, with their times.
//!
//! Pure: events and `now` in, a [`NodeView`] out.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Pulses;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::taints::has_eviction_taint;
use super::view::{NEVER_POSTED, NodeView, ready_condition};
use super::zones::Permission;

/// All observations of this controller.
#[derive(Debug)]
pub struct Observations {
    started: Timestamp,
    monitor_period: Duration,
    nodes: BTreeMap<String, Observed>,
    renewals: BTreeMap<String, Timestamp>,
    pulses: Option<Pulses>,
}

#[derive(Debug)]
struct Observed {
    uid: Option<String>,
    heartbeat: Option<Timestamp>,
    renewed: Option<Timestamp>,
    last_sign: Timestamp,
    pods_marked_for: Option<Timestamp>,
    permission: Permission,
}

impl Observations {
    /// Empty observations of a controller that monitors its nodes every `monitor_period` from `started` on.
    pub fn new(started: Timestamp, monitor_period: Duration) -> Self {
        Self {
            started,
            monitor_period,
            nodes: BTreeMap::new(),
            renewals: BTreeMap::new(),
            pulses: None,
        }
    }

    /// The same, with signs of life from `pulses`, which are not written to the API server.
    #[must_use]
    pub fn with_pulses(mut self, pulses: Option<Pulses>) -> Self {
        self.pulses = pulses;
        self
    }

    /// The first monitor round at or after `moment`.
    pub fn round_at_or_after(&self, moment: Timestamp) -> Timestamp {
        let period = i128::try_from(self.monitor_period.as_nanos()).unwrap_or(i128::MAX);
        if period == 0 {
            return moment;
        }
        let elapsed = moment.as_nanosecond().saturating_sub(self.started.as_nanosecond());
        let missing = elapsed.saturating_neg().rem_euclid(period);
        moment
            .saturating_add(SignedDuration::from_nanos_i128(missing))
            .unwrap_or(Timestamp::MAX)
    }

    /// Records a node as the API server returns it.
    pub fn node_seen(&mut self, node: &Node, now: Timestamp) {
        let name = node.name_any();
        let heartbeat = heartbeat(node);
        let look = self.round_at_or_after(now);
        match self.nodes.get_mut(&name) {
            Some(known) if known.uid == node.metadata.uid => {
                if known.heartbeat != heartbeat {
                    known.heartbeat = heartbeat;
                    known.last_sign = look;
                }
            }
            _ => {
                let renewed = self.renewals.get(&name).copied();
                let created = node
                    .metadata
                    .creation_timestamp
                    .as_ref()
                    .map_or(look, |created| created.0);
                let last_sign = if heartbeat.is_some() || renewed.is_some() {
                    look
                } else {
                    created
                };
                self.nodes.insert(
                    name,
                    Observed {
                        uid: node.metadata.uid.clone(),
                        heartbeat,
                        renewed,
                        last_sign,
                        pods_marked_for: None,
                        permission: Permission::Unsettled,
                    },
                );
            }
        }
        if has_eviction_taint(node)
            && let Some(known) = self.nodes.get_mut(node.metadata.name.as_deref().unwrap_or_default())
            && known.permission == Permission::Granted
        {
            known.permission = Permission::Used;
        }
    }

    /// Records a node's permission.
    pub fn permitted(&mut self, name: &str, permission: Permission) {
        if let Some(known) = self.nodes.get_mut(name) {
            known.permission = permission;
        }
    }

    /// Restarts the grace period of every kubelet.
    pub fn restart_grace_periods(&mut self, now: Timestamp) {
        for known in self.nodes.values_mut() {
            known.last_sign = known.last_sign.max(now);
        }
    }

    /// Records that a node is gone.
    pub fn node_gone(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Records a node's Lease. Only a renewal later than the last one is a sign of life.
    pub fn lease_seen(&mut self, lease: &Lease, now: Timestamp) {
        let Some(renewed) = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()) else {
            return;
        };
        let name = lease.name_any();
        let look = self.round_at_or_after(now);
        self.renewals.insert(name.clone(), renewed.0);
        if let Some(known) = self.nodes.get_mut(&name)
            && known.renewed.is_none_or(|before| before < renewed.0)
        {
            known.renewed = Some(renewed.0);
            known.last_sign = look;
        }
    }

    /// Records that a node's Lease is gone, which is no evidence by itself.
    pub fn lease_gone(&mut self, name: &str) {
        self.renewals.remove(name);
    }

    /// Records that the pods of a silent node have been marked not ready for the silence that began at `since`;
    /// `None` when that failed.
    pub fn pods_marked_not_ready(&mut self, name: &str, since: Option<Timestamp>) {
        if let Some(known) = self.nodes.get_mut(name) {
            known.pods_marked_for = since;
        }
    }

    /// The input of the decision about a node.
    pub fn view<'a>(&self, node: &'a Node, now: Timestamp) -> Option<NodeView<'a>> {
        let known = self.nodes.get(node.metadata.name.as_deref()?)?;
        let uid = known.uid.as_deref().unwrap_or_default();
        let beat = self.pulses.as_ref().and_then(|pulses| pulses.last(uid, now));
        let heard = beat.map(|beat| self.round_at_or_after(beat));
        Some(NodeView {
            node,
            posted: known.heartbeat.is_some(),
            last_sign: heard.map_or(known.last_sign, |heard| heard.max(known.last_sign)),
            pods_marked_for: known.pods_marked_for,
            permission: known.permission,
        })
    }
}

/// The kubelet's last heartbeat; `None` when it never posted a status. Conditions that this controller created
/// do not count.
fn heartbeat(node: &Node) -> Option<Timestamp> {
    let ready = ready_condition(node).filter(|ready| ready.reason.as_deref() != Some(NEVER_POSTED))?;
    Some(
        ready
            .last_heartbeat_time
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    )
}
