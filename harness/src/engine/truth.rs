//! Reads current state where the order of observations matters: each stream is ordered, but the streams have no common
//! order, and a fault may delay one of them.

use std::time::Duration;

use judge::Failure;
use judge::invariants::{ServerTruth, may_lead};
use judge::object::{after, is_deleting, owner, text};
use judge::world::{self, Leadership};
use runtime::error::brief;
use scenario::cloud::CloudEvent;
use scenario::kinds;
use scenario::observation::{Observation, Seen};
use serde_json::Value;
use stage::kind_api::KindApi;
use stage::{LEASE, Stage};

use super::Engine;
use super::observe::RETRY;

/// Maximum duration of a restart of fakecloud: a pod takes seconds.
const CLOUD_RESTART: Duration = Duration::from_secs(30);

impl<S: Stage> Engine<'_, S> {
    /// For a call that deleted a VM, or a VM that is being deleted: the current Machine on the API server, unless the
    /// engine has already observed its deletion.
    pub(super) async fn machine_of_deletion(&mut self, observation: &Observation) -> Result<ServerTruth, Failure> {
        let name = match &observation.what {
            Seen::Cloud(CloudEvent::Call(call)) if call.call == "DeleteMachine" => &call.machine,
            Seen::Cloud(CloudEvent::Vm(vm)) if !vm.state.is_live() => &vm.machine,
            _ => return Ok(ServerTruth::NotRead),
        };
        if self.world.object("Machine", name).is_none_or(is_deleting) {
            return Ok(ServerTruth::NotRead);
        }
        let namespace = self.stage.namespace().to_owned();
        let kind = kinds::find("Machine").map_err(|error| self.failed(error))?;
        let read = kind.api(&self.stage.client(), &namespace).get_opt(name).await;
        match read.map(|machine| machine.and_then(|machine| serde_json::to_value(machine).ok())) {
            Ok(machine) => Ok(machine.map_or(ServerTruth::Gone, ServerTruth::Machine)),
            Err(error) => Err(self.failed(format!("cannot read machine {name}: {}", brief(&error)))),
        }
    }

    /// Reads the ledger, because the removal of a Machine is judged by its VMs, whose deletion may not have been
    /// observed yet. Retries while the cloud is being restarted.
    pub(super) async fn catch_up_with_cloud(&mut self) -> Result<(), Failure> {
        let clock = self.stage.clock().clone();
        let deadline = after(clock.now(), CLOUD_RESTART);
        loop {
            match self.stage.cloud().vms().await {
                Ok(vms) => {
                    vms.iter().for_each(|vm| self.world.record_vm(vm));
                    return Ok(());
                }
                Err(_) if clock.now() < deadline => clock.sleep(RETRY).await,
                Err(error) => return Err(self.failed(format!("cannot read the VMs of the cloud: {error}"))),
            }
        }
    }

    /// Applies renewals without a request. Reads the Lease if the caller does not hold the last observed one, because a
    /// watch that had to list again may lag.
    pub(super) async fn catch_up_with_lease(&mut self, observation: &Observation) -> Result<(), Failure> {
        let Seen::Cloud(CloudEvent::Call(call)) = &observation.what else {
            return Ok(());
        };
        self.catch_up_with_renewals();
        let leads = |lease: &Leadership| may_lead(lease, &call.client, observation.at);
        if call.client.is_empty() || self.world.leadership.as_ref().is_none_or(leads) {
            return Ok(());
        }
        let namespace = self.stage.namespace().to_owned();
        let kind = kinds::find("Lease").map_err(|error| self.failed(error))?;
        let read = kind.api(&self.stage.client(), &namespace).get_opt(LEASE).await;
        let lease =
            read.map_err(|error| self.failed(format!("cannot read the Lease {namespace}/{LEASE}: {}", brief(&error))))?;
        let lease = lease.and_then(|lease| serde_json::to_value(lease).ok());
        self.world.leadership = lease.as_ref().and_then(Leadership::of);
        self.catch_up_with_renewals();
        Ok(())
    }

    fn catch_up_with_renewals(&mut self) {
        if let Some(lease) = &mut self.world.leadership
            && let Some(renewed) = self.stage.unheard_renewal(&lease.holder)
        {
            lease.renewed = lease.renewed.max(renewed);
        }
    }

    /// Reads the set of a Machine that is being deleted, because the engine may not have observed the new size that
    /// causes the deletion.
    pub(super) async fn catch_up_with_set(&mut self, observation: &Observation) -> Result<(), Failure> {
        let Seen::Applied(kind, machine) = &observation.what else {
            return Ok(());
        };
        let known = self.world.objects.get(&world::key(kind, machine));
        let removed = kind.key == "Machine" && is_deleting(machine) && !known.is_some_and(is_deleting);
        let Some(owner) = owner(machine, "MachineSet").filter(|_| removed) else {
            return Ok(());
        };
        let set = kinds::find("MachineSet").map_err(|error| self.failed(error))?;
        let namespace = text(machine, "/metadata/namespace");
        let read = set.api(&self.stage.client(), namespace).get_opt(owner).await;
        let read = read.map_err(|error| self.failed(format!("cannot read MachineSet {owner}: {}", brief(&error))))?;
        if let Some(object) = read.and_then(|object| serde_json::to_value(object).ok()) {
            if may_hide_changes(self.world.objects.get(&world::key(set, &object)), &object) {
                self.invariants
                    .rules
                    .skipped_changes
                    .insert(owner.to_owned(), observation.at);
            }
            self.world.objects.insert(world::key(set, &object), object);
        }
        Ok(())
    }
}

/// Whether the spec that caused the deletion of a Machine may be neither the one that was read nor the known one: there
/// were specs in between that were not observed, or the known one had fewer replicas.
fn may_hide_changes(known: Option<&Value>, read: &Value) -> bool {
    let generation = |set: &Value| set["metadata"]["generation"].as_i64().unwrap_or_default();
    let replicas = |set: &Value| set["spec"]["replicas"].as_i64().unwrap_or_default();
    let newer = generation(read) - known.map_or(0, generation);
    newer > 1 || newer == 1 && known.is_some_and(|known| replicas(known) < replicas(read))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::the_same((3, 4), (3, 4), false)]
    #[case::it_was_lowered((3, 4), (4, 3), false)]
    #[case::it_was_lowered_before_and_raised_now((3, 3), (4, 4), true)]
    #[case::a_generation_was_not_observed((3, 4), (5, 4), true)]
    fn a_set_may_have_changed_since_its_machine_was_chosen(
        #[case] known: (i64, i64),
        #[case] read: (i64, i64),
        #[case] expected: bool,
    ) {
        let set = |(generation, replicas)| json!({ "metadata": { "generation": generation }, "spec": { "replicas": replicas } });
        assert_eq!(may_hide_changes(Some(&set(known)), &set(read)), expected);
    }
}
