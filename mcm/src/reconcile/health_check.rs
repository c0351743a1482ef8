//! One pass of a health check: view, decision, actions; again if something changed meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use mcm_api::health_check::MachineHealthCheckStatus;
use mcm_api::{Machine, MachineHealthCheck, MachineStatus, keys};
use mcm_core::health_check::{
    Action, EventObject, NodeState, Plan, Policy, Remediated, Remediation, RequestKind, RequestView, Settings, Target,
    View, decide, is_node_observed, needs_requests, normalize,
};
use mcm_core::merge::merge_patch;
use serde_json::json;

use super::{Controllers, MACHINES_AT_ONCE, Outcome};
use crate::cache::Key;
use crate::cluster::LeanApi;
use crate::error::{brief, is_conflict, is_not_found};
use crate::execute::RemediationRequests;
use crate::memory::RetryCause;
use crate::view::{Trigger, Work};

/// The maximum number of decisions in one pass; one that needs more is requeued.
const DECISIONS: usize = 4;

/// How a plan ended.
enum Performed {
    /// All actions were performed.
    Done,
    /// An object changed since the decision.
    Changed,
    /// A request could not be created.
    NotCreated,
    /// An action failed.
    Failed,
    /// This process may not act any more.
    NotLeading,
}

impl Controllers {
    /// Performs one pass of a check. Two passes are at least the interval apart.
    pub(super) async fn health_check(&self, key: &Key) -> Outcome {
        let outcome = Box::pin(self.evaluate_health(key)).await;
        let repeats = outcome.wake == Some(self.settings.retry.conflict) && defect!(UnreadableRequestsRepeatedAtOnce);
        let pause = (!repeats).then_some(self.health_check_settings.request_period);
        Outcome {
            pause: outcome.pause.or(pause),
            ..outcome
        }
    }

    async fn evaluate_health(&self, key: &Key) -> Outcome {
        let mut outcome = Outcome::default();
        let mut failed_requests = BTreeMap::new();
        for _ in 0..DECISIONS {
            let state = &self.executor.state;
            let Some(check) = state.health_checks.get(key) else {
                self.executor.metrics.health_checks().forget(key);
                return outcome;
            };
            let clock = &self.executor.clock;
            let started = clock.now();
            let policy = normalize(&check.spec, &key.namespace);
            let mut view = state.health_check_view(&check);
            let found = between(started, clock.now());
            self.confirm_missing_nodes(&mut view).await;
            view.failed_requests.clone_from(&failed_requests);
            if let Ok(policy) = &policy {
                self.read_requests(&mut view, policy).await;
            }
            let now = clock.now();
            let plan = decide(
                &view,
                policy.as_ref().map_err(Vec::as_slice),
                &self.health_check_settings,
                now,
            );
            let evaluated = between(now, clock.now());
            self.executor.metrics.observe_health_evaluation(found + evaluated);
            tracing::debug!(check = %key, machines = view.targets.len(), actions = plan.actions.len(), "evaluated");
            self.executor.metrics.health_checks().set(key, &plan.outcome);
            outcome.wake = plan.wake;
            let after_failure = plan.after_failure;
            let performed = self
                .perform_checks(&view, plan, &mut outcome.triggers, &mut failed_requests)
                .await;
            match performed {
                Performed::Done if after_failure => return self.unreadable(outcome),
                Performed::Done => return outcome,
                Performed::Changed | Performed::NotCreated => {}
                Performed::Failed if defect!(MissingRequestEndsPass) => {
                    return Outcome {
                        // As if the process had ended.
                        pause: Some(self.settings.retry.long),
                        ..Outcome::default()
                    };
                }
                Performed::Failed => return outcome.retry_after(RetryCause::Failure),
                Performed::NotLeading => return outcome.again(self.settings.retry.short),
            }
        }
        outcome.again(self.settings.retry.short)
    }

    fn unreadable(&self, outcome: Outcome) -> Outcome {
        if defect!(UnreadableRequestsRepeatedAtOnce) {
            return outcome.again(self.settings.retry.conflict);
        }
        outcome.retry_after(RetryCause::Failure)
    }

    /// Reads the Nodes that the cache does not have although their machines have joined. The caches of Machines and Nodes are
    /// filled by separate watches: when mcm runs in another process, a machine may be known as joined before its Node is.
    async fn confirm_missing_nodes(&self, view: &mut View) {
        let Some(client) = &self.executor.target else { return };
        let nodes: Api<Node> = Api::all(client.clone());
        let is_missing = |target: &Target| {
            let is_ending = target.machine.metadata.deletion_timestamp.is_some();
            target.node == NodeState::Absent && is_node_observed(&target.machine) && !is_ending
        };
        let missing = view.targets.iter_mut().filter(|target| is_missing(target));
        let mut missing: Vec<(String, &mut Target)> = missing
            .filter_map(|target| Some((target.machine.labels().get(keys::NODE_LABEL)?.clone(), target)))
            .collect();
        for batch in missing.chunks_mut(MACHINES_AT_ONCE) {
            let names: Vec<String> = batch.iter().map(|(name, _)| name.clone()).collect();
            let read = join_all(names.iter().map(|name| nodes.get_opt(name))).await;
            for ((_, target), node) in batch.iter_mut().zip(read) {
                target.node = match node {
                    Ok(Some(node)) => NodeState::Present(Arc::new(node)),
                    Ok(None) => NodeState::Absent,
                    Err(error) => NodeState::Unreadable(brief(&error)),
                };
            }
        }
    }

    /// Reads the requests to other controllers, and their templates, if the decision needs them.
    async fn read_requests(&self, view: &mut View, policy: &Policy) {
        if !needs_requests(&view.check, policy) {
            return;
        }
        let requests = self.remediation_requests();
        let mut kinds: Vec<RequestKind> = Vec::new();
        if let Remediation::External(steps) = &policy.remediation {
            for step in steps {
                kinds.push(RequestKind::of(&step.template));
                let template = requests.template(&step.template).await;
                view.templates.insert(step.template.clone(), template);
            }
        }
        if !defect!(RequestsFoundByCurrentTemplate) {
            let recorded = view.check.status.remediations.iter();
            kinds.extend(recorded.map(|entry| RequestKind {
                api_version: entry.api_version.clone(),
                kind: entry.kind.clone(),
            }));
        }
        kinds.sort();
        kinds.dedup();
        view.requests = requests.list(&kinds).await;
        if let RequestView::Known(requests) = &mut view.requests {
            for request in requests {
                let exists = |check: &String| {
                    let key = Key::new(&self.executor.state.namespace, check);
                    self.executor.state.health_checks.get(&key).is_some()
                };
                request.is_orphaned = request.check.as_ref().is_some_and(|check| !exists(check));
            }
        }
    }

    fn remediation_requests(&self) -> RemediationRequests<'_> {
        RemediationRequests {
            client: &self.executor.control,
            namespace: &self.executor.state.namespace,
            resources: &self.resources,
        }
    }

    async fn perform_checks(
        &self,
        view: &View,
        plan: Plan,
        triggers: &mut Vec<Trigger>,
        failed_requests: &mut BTreeMap<String, String>,
    ) -> Performed {
        let machines: BTreeMap<&str, &Machine> = view
            .targets
            .iter()
            .map(|target| (target.name(), &*target.machine))
            .collect();
        let mut result = Performed::Done;
        let mut writes = Vec::new();
        for action in plan.actions {
            let (write, other) = match action {
                Action::WriteConditions { .. } => (Some(action), None),
                other => (None, Some(other)),
            };
            writes.extend(write);
            if other.is_some() || writes.len() >= MACHINES_AT_ONCE {
                let batch = std::mem::take(&mut writes);
                let ended = self.write_machines(view, &machines, batch, triggers).await;
                result = first(result, ended);
            }
            let Some(action) = other else { continue };
            match self.perform_check(view, &machines, action, failed_requests).await {
                // What follows may be recorded in the status, which must be written first.
                (ended, true) => return first(result, ended),
                (ended, false) => result = first(result, ended),
            }
        }
        let ended = self.write_machines(view, &machines, writes, triggers).await;
        first(result, ended)
    }

    /// Writes the conditions of several machines.
    async fn write_machines(
        &self,
        view: &View,
        machines: &BTreeMap<&str, &Machine>,
        writes: Vec<Action>,
        triggers: &mut Vec<Trigger>,
    ) -> Performed {
        if writes.is_empty() {
            return Performed::Done;
        }
        if !self.executor.may_act() {
            return Performed::NotLeading;
        }
        let each = writes
            .into_iter()
            .map(|action| self.write_machine(view, machines, action));
        let mut result = Performed::Done;
        for (ended, trigger) in join_all(each).await {
            let enabled = self.executor.state.enabled;
            triggers.extend(trigger.filter(|trigger| enabled.runs(&trigger.work)));
            result = first(result, ended);
        }
        result
    }

    async fn write_machine(
        &self,
        view: &View,
        machines: &BTreeMap<&str, &Machine>,
        action: Action,
    ) -> (Performed, Option<Trigger>) {
        let Action::WriteConditions {
            machine,
            conditions,
            remediated,
        } = action
        else {
            return (Performed::Done, None);
        };
        let Some(known) = machines.get(machine.as_str()) else {
            return (Performed::Done, None);
        };
        let status = MachineStatus {
            conditions,
            ..known.status.clone()
        };
        match self.executor.write_status(known, &status).await {
            Ok(()) => {
                self.count(view, remediated);
                let work = Work::Machine(Key::of(*known));
                (Performed::Done, Some(Trigger { work, hurry: false }))
            }
            Err(error) if is_not_found(&error) => (Performed::Done, None),
            Err(error) => (failed("the conditions of a machine", &error), None),
        }
    }

    /// Performs an action; returns also whether the actions after it depend on it.
    async fn perform_check(
        &self,
        view: &View,
        machines: &BTreeMap<&str, &Machine>,
        action: Action,
        failed_requests: &mut BTreeMap<String, String>,
    ) -> (Performed, bool) {
        let executor = &self.executor;
        let only_reports = matches!(action, Action::WriteStatus(_) | Action::RecordEvent { .. });
        // The status and events go on being written during a freeze.
        let may_act = if only_reports {
            executor.tenure.holds(executor.clock.now())
        } else {
            executor.may_act()
        };
        if !may_act {
            return (Performed::NotLeading, true);
        }
        let requests = self.remediation_requests();
        match action {
            Action::WriteStatus(status) => match self.write_check_status(&view.check, &status).await {
                Ok(()) => (Performed::Done, false),
                Err(error) if is_not_found(&error) => (Performed::Done, true),
                Err(error) => (failed("the status of a health check", &error), true),
            },
            Action::WriteConditions { .. } => (Performed::Done, false),
            Action::CreateRequest { machine, kind, object } => match requests.create(&kind, &object).await {
                Ok(()) => {
                    self.count(
                        view,
                        Some(Remediated::Requested(mcm_core::health_check::Remediator::External)),
                    );
                    (Performed::Done, false)
                }
                Err(error) => {
                    tracing::info!(machine, error = brief(&error), "creating a remediation request failed");
                    self.count(view, Some(Remediated::Failed));
                    failed_requests.insert(machine, brief(&error));
                    (Performed::NotCreated, false)
                }
            },
            Action::DeleteRequest {
                kind,
                name,
                uid,
                remediated,
            } => match requests.delete(&kind, &name, &uid).await {
                Ok(()) => {
                    self.count(view, Some(remediated));
                    (Performed::Done, false)
                }
                Err(error) => (
                    failed("the deletion of a remediation request", &error),
                    defect!(MissingRequestEndsPass),
                ),
            },
            Action::RecordEvent {
                object,
                type_,
                reason,
                message,
            } => {
                let client = &executor.control;
                let recorded = match &object {
                    EventObject::Check => {
                        executor
                            .recorder
                            .record(client, &view.check, type_, reason, &message)
                            .await
                    }
                    EventObject::Machine(name) => match machines.get(name.as_str()) {
                        Some(machine) => {
                            executor
                                .recorder
                                .record(client, *machine, type_, reason, &message)
                                .await
                        }
                        None => Ok(()),
                    },
                };
                if let Err(error) = recorded {
                    tracing::debug!(error = brief(&error), "recording the event failed");
                }
                (Performed::Done, false)
            }
        }
    }

    async fn write_check_status(
        &self,
        check: &MachineHealthCheck,
        status: &MachineHealthCheckStatus,
    ) -> kube::Result<()> {
        let (old, new) = (serde_json::to_value(&check.status), serde_json::to_value(status));
        let (old, new) = (
            old.map_err(kube::Error::SerdeError)?,
            new.map_err(kube::Error::SerdeError)?,
        );
        let mut change = merge_patch(&old, &new);
        // Also zeros, which a status without these fields does not differ from.
        for number in ["expectedMachines", "currentHealthy", "remediationsAllowed"] {
            change[number] = new[number].clone();
        }
        let patch = json!({
            "metadata": { "resourceVersion": check.metadata.resource_version },
            "status": change,
        });
        let state = &self.executor.state;
        let api: LeanApi<MachineHealthCheck> = LeanApi::namespaced(self.executor.control.clone(), &state.namespace);
        let name = check.metadata.name.clone().unwrap_or_default();
        let written = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        let stored = self.executor.store_result(&api, &name, &state.health_checks, written);
        stored.await.map(drop)
    }

    fn count(&self, view: &View, remediated: Option<Remediated>) {
        if let Some(remediated) = remediated {
            self.executor
                .metrics
                .health_checks()
                .count(&Key::of(&view.check), remediated);
        }
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// The first result that is not [`Performed::Done`].
fn first(one: Performed, other: Performed) -> Performed {
    if matches!(one, Performed::Done) { other } else { one }
}

fn failed(what: &str, error: &kube::Error) -> Performed {
    if is_conflict(error) {
        return Performed::Changed;
    }
    tracing::info!(what, error = brief(error), "a write failed");
    Performed::Failed
}

/// The settings of all checks.
pub(crate) fn settings(options: &crate::options::HealthCheckOptions) -> Settings {
    Settings {
        exclusive_limit: options.exclusive_limit,
        outage_grace: options.outage_grace.0,
        request_period: options.interval.0,
    }
}
