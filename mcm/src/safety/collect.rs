//! One pass over the cloud's VMs: lists them, finds orphans, confirms them with the API server, and deletes them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, ResourceExt};
use mcm_api::{Code, Machine, MachineClass, MachineName, ProviderId};
use mcm_core::event::EventType;
use mcm_core::safety::orphans::{
    Candidate, Deletion, Known, Listing, ServedMachine, Sighting, Verdict, View, confirm, examine,
};
use mcm_driver::MachineRequest;
use runtime::decode::Decoded;

use super::Safety;
use crate::cache::Key;
use crate::error::brief;
use crate::view::secret;

/// How many new candidates a pass logs one by one.
const LOGGED: usize = 50;

/// State that is kept between passes.
pub(super) struct Memory {
    started: Timestamp,
    sightings: BTreeMap<ProviderId, Sighting>,
    /// The deletions of the last period.
    deletions: BTreeMap<ProviderId, Deletion>,
    /// When an excess of orphans was last reported.
    excess_reported: Option<Timestamp>,
    /// The provider ids of the VMs with our tags in the last pass.
    pub(super) listed: BTreeSet<ProviderId>,
}

impl Memory {
    /// The initial state of a process whose caches were filled at `started`.
    pub(super) fn starting(started: Timestamp) -> Self {
        Self {
            started,
            sightings: BTreeMap::new(),
            deletions: BTreeMap::new(),
            excess_reported: None,
            listed: BTreeSet::new(),
        }
    }
}

impl Safety {
    /// Performs a pass; returns when another one is needed before the regular one.
    pub(super) async fn collect(&self, memory: &mut Memory) -> Option<Duration> {
        let executor = self.executor();
        let state = &executor.state;
        let mut wake = None;
        let (mut listings, mut incomplete) = (Vec::new(), false);
        for class in state.classes.all() {
            match self.list(&class).await {
                Ok(Some(listing)) => listings.push(listing),
                Ok(None) => {}
                Err(()) => {
                    incomplete = true;
                    wake = Some(self.controllers.settings.retry.long);
                }
            }
        }
        let vms = |listing: &Listing| listing.vms.keys().cloned().collect::<Vec<ProviderId>>();
        memory.listed = listings.iter().flat_map(vms).collect();
        let machines = state.machines.all();
        let (now, period) = (self.now(), self.settings.orphans.period);
        let age = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        memory.deletions.retain(|_, deletion| age(deletion.at) < period);
        let view = View {
            started: memory.started,
            listings,
            incomplete,
            machines: machines
                .iter()
                .filter_map(|machine| Some((MachineName::new(machine.name_any())?, Known::of(machine))))
                .collect(),
            sightings: std::mem::take(&mut memory.sightings),
            deletions: memory.deletions.clone(),
        };
        let plan = examine(&view, now, &self.settings.orphans);
        log_new(&view.sightings, &plan.sightings);
        executor.metrics.set_orphan_candidates(plan.sightings.len());
        match plan.excess {
            Some(_) if memory.excess_reported.is_some_and(|at| age(at) < period) => {}
            Some(excess) => {
                memory.excess_reported = Some(now);
                self.report_excess(&view, &plan.sightings, excess).await;
            }
            None => memory.excess_reported = None,
        }
        memory.sightings = plan.sightings;
        for candidate in &plan.due {
            match self.verdict(candidate).await {
                Verdict::Collect => {
                    let deletion = self.delete_orphan(candidate).await;
                    memory.deletions.insert(candidate.provider_id.clone(), deletion);
                    if deletion.failed {
                        wake = Some(self.controllers.settings.retry.long);
                    } else {
                        memory.sightings.remove(&candidate.provider_id);
                    }
                }
                Verdict::Refuse(reason) => {
                    memory.sightings.remove(&candidate.provider_id);
                    self.report_refusal(candidate, &reason);
                }
                Verdict::Stop(reason) => {
                    self.report_refusal(candidate, &reason);
                    wake = Some(self.settings.api.period);
                    break;
                }
            }
        }
        [wake, plan.wake].into_iter().flatten().min()
    }

    /// Records on each class with candidates that there are too many orphans.
    async fn report_excess(&self, view: &View, candidates: &BTreeMap<ProviderId, Sighting>, excess: usize) {
        let maximum = self.settings.orphans.maximum;
        let message = format!(
            "{excess} VMs look like orphans, more than --machine-safety-max-orphan-vms={maximum}: mcm deletes none of them. \
             If their Machines were deleted by mistake, restore them; otherwise raise the flag"
        );
        tracing::warn!("{message}");
        let executor = self.executor();
        let is_concerned = |listing: &&Listing| listing.vms.keys().any(|id| candidates.contains_key(id));
        for listing in view.listings.iter().filter(is_concerned) {
            let key = Key::new(&executor.state.namespace, &listing.class);
            if let Some(class) = executor.state.classes.get(&key) {
                self.record(&class, "TooManyOrphanVMs", &message).await;
            }
        }
    }

    /// Records a warning on a class.
    async fn record(&self, class: &MachineClass, reason: &'static str, message: &str) {
        let executor = self.executor();
        let event = executor
            .recorder
            .record(&executor.control, class, EventType::Warning, reason, message);
        if let Err(error) = event.await {
            tracing::debug!(error = brief(&error), "recording the event failed");
        }
    }

    fn report_refusal(&self, candidate: &Candidate, reason: &str) {
        self.executor().metrics.count_orphan("refused");
        tracing::warn!(
            vm = candidate.provider_id.as_str(),
            machine = candidate.machine.as_str(),
            reason,
            "the VM looked like an orphan and is kept"
        );
    }

    /// The VMs of a class; `None`: its driver does not implement ListMachines. A failure is logged.
    async fn list(&self, class: &MachineClass) -> Result<Option<Listing>, ()> {
        let executor = self.executor();
        let name = class.name_any();
        let secret = secret(&executor.state, class);
        if let Some(missing) = secret.missing.first() {
            tracing::warn!(
                class = name,
                secret = missing,
                "a Secret of the class is missing: its VMs are not checked"
            );
            return Err(());
        }
        let listed = executor.driver.list_machines(class.clone(), secret.data.0);
        match executor.timed_call(class, "ListMachines", listed).await {
            Ok(vms) => Ok(Some(Listing { class: name, vms })),
            Err(error) if error.code == Code::Unimplemented => Ok(None),
            Err(error) => {
                tracing::warn!(class = name, %error, "the VMs of the class cannot be listed: none is collected");
                Err(())
            }
        }
    }

    async fn verdict(&self, candidate: &Candidate) -> Verdict {
        if !self.may_collect() {
            return Verdict::Stop("an API server does not respond, or another process leads".to_owned());
        }
        let executor = self.executor();
        let api: Api<Decoded<Machine>> = Api::namespaced(executor.control.clone(), &executor.state.namespace);
        let served = match api.get_opt(&candidate.machine).await {
            Ok(None) => ServedMachine::Absent,
            Ok(Some(Decoded::Whole(machine))) => ServedMachine::Present(Known::of(&machine)),
            Ok(Some(damaged)) => {
                let (_, problems) = damaged.into_parts();
                ServedMachine::Undecodable(problems.to_string())
            }
            Err(error) => ServedMachine::Unreadable(brief(&error)),
        };
        match confirm(candidate, &served) {
            // The situation may have changed during the read.
            Verdict::Collect if !self.may_collect() => {
                Verdict::Stop("an API server does not respond, or another process leads".to_owned())
            }
            verdict => verdict,
        }
    }

    /// Deletes an orphan VM with a placeholder machine, which has its provider id and no uid. The deletion fails without a
    /// request if the class is gone or a Node cannot be released.
    async fn delete_orphan(&self, candidate: &Candidate) -> Deletion {
        let failed = Deletion {
            at: self.now(),
            failed: true,
        };
        let executor = self.executor();
        let key = Key::new(&executor.state.namespace, &candidate.class);
        let Some(class) = executor.state.classes.get(&key) else {
            return failed;
        };
        // After the deletion it is unknown that the Node was ours.
        if !self.release_nodes(&candidate.provider_id).await {
            return failed;
        }
        let mut machine = Machine::default();
        machine.metadata.name = Some(candidate.machine.to_string());
        machine.metadata.namespace = class.metadata.namespace.clone();
        machine.spec.class.kind = "MachineClass".to_owned();
        machine.spec.class.name.clone_from(&candidate.class);
        machine.spec.provider_id = candidate.provider_id.to_string();
        let request = MachineRequest {
            machine,
            class: MachineClass::clone(&class),
            secret: secret(&executor.state, &class).data.0,
        };
        self.guard().set_collecting(true);
        let deleted = executor
            .timed_call(&class, "DeleteMachine", executor.driver.delete_machine(request))
            .await;
        self.guard().set_collecting(false);
        let Candidate {
            provider_id, evidence, ..
        } = candidate;
        let (reason, message) = match &deleted {
            Ok(_) => (
                "OrphanVMCollected",
                format!("the VM {provider_id} is deleted: {evidence}"),
            ),
            Err(error) => (
                "OrphanVMNotCollected",
                format!("the VM {provider_id}, which no machine needs ({evidence}), cannot be deleted: {error}"),
            ),
        };
        executor
            .metrics
            .count_orphan(if deleted.is_ok() { "collected" } else { "failed" });
        tracing::warn!(machine = candidate.machine.as_str(), "{message}");
        self.record(&class, reason, &message).await;
        Deletion {
            at: self.now(),
            failed: deleted.is_err(),
        }
    }
}

/// Logs the candidates that the previous pass did not have: the first of them one by one, and the number of the others.
fn log_new(before: &BTreeMap<ProviderId, Sighting>, now: &BTreeMap<ProviderId, Sighting>) {
    let mut new = now.iter().filter(|(provider_id, _)| !before.contains_key(*provider_id));
    for (provider_id, sighting) in new.by_ref().take(LOGGED) {
        tracing::info!(vm = provider_id.as_str(), reason = %sighting.evidence, "the VM may be an orphan");
    }
    let others = new.count();
    if others > 0 {
        tracing::info!(others, "more VMs may be orphans");
    }
}
