//! Performs the steps of plans for sets and deployments.

use std::fmt::Display;
use std::iter::Peekable;
use std::vec::IntoIter;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Resource, ResourceExt};
use mcm_api::{Machine, MachineDeployment, MachineSet};
use mcm_core::event::EventType;
use mcm_core::ownership::controller;
use mcm_core::steps::{Kind, OwnerAction, Plan, Step};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ActionExecutor;
use crate::cache::{Cache, Indexed, Key};
use crate::cluster::LeanApi;
use crate::error::{brief, has_unknown_outcome, is_already_exists, is_conflict, is_not_found};
use crate::memory::{MachineNames, RetryCause};
use crate::view::{Trigger, Work};

/// How many names are tried for a machine.
const NAME_ATTEMPTS: usize = 5;
/// The maximum number of steps that are performed at the same time.
const MAX_AT_ONCE: usize = 32;

/// The object of a plan.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'a> {
    Set(&'a MachineSet),
    Deployment(&'a MachineDeployment),
}

/// How the steps of a plan ended.
pub(crate) enum Ended {
    /// All steps were performed; `true`: machines were created.
    Done(bool),
    /// All steps were performed except optional ones, such as labels of Nodes, which must be retried after a delay.
    Partly(RetryCause),
    /// This process may not act any more.
    NotLeading,
    /// An object changed meanwhile; the cache contains its new version.
    Conflict,
    /// A set with that name already exists.
    Taken(String),
    /// A set could not be created: its name and the error.
    NotCreated(String),
    /// Another step failed.
    Failed(String),
}

/// What the steps performed so far did.
#[derive(Default)]
struct Performed {
    /// Whether machines were created.
    created: bool,
    /// Why an optional step must be retried.
    incomplete: Option<RetryCause>,
    /// Resulting work.
    triggers: Vec<Trigger>,
    /// How the plan ends, if it ends before its last step.
    ended: Option<Ended>,
}

impl Performed {
    /// Adds what steps performed at the same time did. The first reason to end the plan counts.
    fn merge(&mut self, mut other: Self) {
        self.created |= other.created;
        self.incomplete = other.incomplete.or(self.incomplete);
        self.triggers.append(&mut other.triggers);
        self.ended = self.ended.take().or(other.ended);
    }

    fn ended(self) -> Ended {
        let complete = self.incomplete.map_or(Ended::Done(self.created), Ended::Partly);
        self.ended.unwrap_or(complete)
    }
}

/// The next steps that are performed at the same time, each with the events that follow it; `None`: no step remains. Steps
/// that change different machines or nodes do not depend on each other. Their number doubles with each batch, so that
/// what cannot succeed is not tried a hundred times.
fn next_batch<R>(steps: &mut Peekable<IntoIter<Step<R>>>, at_once: &mut usize) -> Option<Vec<Vec<Step<R>>>> {
    let first = steps.next()?;
    if !is_independent(&first.action) {
        *at_once = 1;
        return Some(vec![vec![first]]);
    }
    let mut batch = vec![with_events(first, steps)];
    while batch.len() < *at_once
        && let Some(next) = steps.next_if(|step| is_independent(&step.action))
    {
        batch.push(with_events(next, steps));
    }
    *at_once = (2 * *at_once).min(MAX_AT_ONCE);
    Some(batch)
}

fn with_events<R>(step: Step<R>, steps: &mut Peekable<IntoIter<Step<R>>>) -> Vec<Step<R>> {
    let mut group = vec![step];
    while let Some(event) = steps.next_if(|step| matches!(step.action, OwnerAction::RecordEvent { .. })) {
        group.push(event);
    }
    group
}

fn is_independent(action: &OwnerAction) -> bool {
    matches!(
        action,
        OwnerAction::Delete {
            kind: Kind::Machine,
            ..
        } | OwnerAction::Patch {
            kind: Kind::Machine | Kind::Node,
            ..
        }
    )
}

impl ActionExecutor {
    /// Performs the steps on behalf of `owner`. Adds resulting work to `triggers`.
    pub(crate) async fn perform_steps<R: Display>(
        &self,
        names: &MachineNames,
        owner: Owner<'_>,
        plan: Plan<R>,
        triggers: &mut Vec<Trigger>,
    ) -> Ended {
        // One read of the owner suffices for all adoptions.
        let adopts = |action: &OwnerAction| matches!(action, OwnerAction::Adopt { .. });
        if plan.steps.iter().any(|step| adopts(&step.action)) && self.may_act() {
            match self.check_owner(owner).await {
                Ok(()) => {}
                Err(error) if is_conflict(&error) => return Ended::Conflict,
                Err(error) => return Ended::Failed(brief(&error)),
            }
        }
        let mut done = Performed::default();
        let (mut steps, mut at_once) = (plan.steps.into_iter().peekable(), 1);
        while let Some(batch) = next_batch(&mut steps, &mut at_once) {
            let performed = batch.into_iter().map(|group| self.perform_group(names, owner, group));
            for performed in join_all(performed).await {
                done.merge(performed);
            }
            if done.ended.is_some() {
                break;
            }
        }
        triggers.append(&mut done.triggers);
        done.ended()
    }

    /// Performs steps one after the other.
    async fn perform_group<R: Display>(
        &self,
        names: &MachineNames,
        owner: Owner<'_>,
        steps: Vec<Step<R>>,
    ) -> Performed {
        let mut performed = Performed::default();
        for step in steps {
            performed.ended = self.perform_step(names, owner, step, &mut performed).await;
            if performed.ended.is_some() {
                break;
            }
        }
        performed
    }

    /// Performs one step; returns how the plan ends if the following steps must not be performed.
    async fn perform_step<R: Display>(
        &self,
        names: &MachineNames,
        owner: Owner<'_>,
        step: Step<R>,
        performed: &mut Performed,
    ) -> Option<Ended> {
        if !self.may_act() {
            return Some(Ended::NotLeading);
        }
        let counts = match (owner, &step.action) {
            (_, OwnerAction::Delete { .. } | OwnerAction::CreateMachines(_)) => true,
            (Owner::Deployment(_), OwnerAction::Patch { kind, .. }) => *kind == Kind::Set,
            _ => false,
        };
        if counts && self.is_outdated(owner) {
            return Some(Ended::Conflict);
        }
        let may_fail = step.action.may_fail();
        let is_event = matches!(step.action, OwnerAction::RecordEvent { .. });
        performed.created |= matches!(step.action, OwnerAction::CreateMachines(_));
        let set = match &step.action {
            OwnerAction::CreateSet(set) => set.metadata.name.clone(),
            _ => None,
        };
        let event = failure_event(owner, &step.action);
        let deletion = match &step.action {
            OwnerAction::Delete {
                kind: Kind::Machine,
                name,
                uid: Some(uid),
                ..
            } => {
                let machine = Key::new(&self.state.namespace, name);
                let deletions = &self.state.requested_deletions;
                Some(deletions.request(machine, uid.clone(), step.reason.to_string()))
            }
            _ => None,
        };
        let result = self.step(names, owner, step.action, &mut performed.triggers).await;
        if let Some(deletion) = deletion {
            deletion.answered(result.as_ref().err());
        }
        match result {
            Ok(()) => None,
            Err(error) if may_fail => {
                tracing::debug!(error = brief(&error), "an optional step failed");
                if !is_event && !is_not_found(&error) {
                    performed.incomplete = Some(RetryCause::of(is_conflict(&error)));
                }
                None
            }
            Err(error) if is_already_exists(&error) => Some(Ended::Taken(set.unwrap_or_default())),
            Err(error) if is_conflict(&error) || is_not_found(&error) => Some(Ended::Conflict),
            Err(error) => {
                tracing::info!(reason = %step.reason, error = brief(&error), "a step failed");
                if let Some((reason, what)) = event {
                    let text = format!("{what}: {}", brief(&error));
                    drop(self.record_event(owner, EventType::Warning, reason, &text).await);
                }
                let text = brief(&error);
                Some(match set {
                    Some(set) => Ended::NotCreated(format!("{set:?}: {text}")),
                    None => Ended::Failed(text),
                })
            }
        }
    }

    /// Whether the owner's spec changed since the decision, so that the wanted number of machines may differ.
    fn is_outdated(&self, owner: Owner<'_>) -> bool {
        let state = &self.state;
        match owner {
            Owner::Set(set) => {
                let known = state.sets.get(&Key::of(set));
                known.is_none_or(|known| known.metadata.generation != set.metadata.generation)
            }
            Owner::Deployment(one) => {
                let known = state.deployments.get(&Key::of(one));
                known.is_none_or(|known| known.metadata.generation != one.metadata.generation)
            }
        }
    }

    async fn step(
        &self,
        names: &MachineNames,
        owner: Owner<'_>,
        action: OwnerAction,
        triggers: &mut Vec<Trigger>,
    ) -> kube::Result<()> {
        match action {
            OwnerAction::Patch { kind, name, patch } => {
                if kind == Kind::Machine {
                    let work = Work::Machine(Key::new(&self.state.namespace, &name));
                    let hurry = patch.get("spec").is_some();
                    triggers.push(Trigger { work, hurry });
                }
                self.patch(kind, &name, patch, false).await
            }
            OwnerAction::WriteStatus { kind, name, patch } => self.patch(kind, &name, patch, true).await,
            OwnerAction::Adopt { kind, name, patch } => self.patch(kind, &name, patch, false).await,
            OwnerAction::Delete {
                kind,
                name,
                uid,
                resource_version,
            } => self.delete(kind, &name, Preconditions { uid, resource_version }).await,
            OwnerAction::CreateSet(set) => self.create_set(*set).await,
            OwnerAction::CreateMachines(machines) => {
                if defect!(CachedOwnerTrusted) {
                    return self.create_machines(names, owner, machines).await;
                }
                self.check_owner(owner).await?;
                self.create_machines(names, owner, machines).await
            }
            OwnerAction::RecordEvent { type_, reason, message } => {
                self.record_event(owner, type_, reason, &message).await
            }
        }
    }

    /// Checks with the API server that the owner is unchanged since the decision and is not being deleted.
    async fn check_owner(&self, owner: Owner<'_>) -> kube::Result<()> {
        match owner {
            Owner::Set(set) => check_unchanged(&self.namespaced::<MachineSet>(), &self.state.sets, set).await,
            Owner::Deployment(deployment) => {
                let api = self.namespaced::<MachineDeployment>();
                check_unchanged(&api, &self.state.deployments, deployment).await
            }
        }
    }

    fn namespaced<K>(&self) -> LeanApi<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        LeanApi::namespaced(self.control.clone(), &self.state.namespace)
    }

    async fn patch(&self, kind: Kind, name: &str, patch: Value, status: bool) -> kube::Result<()> {
        let state = &self.state;
        match kind {
            Kind::Deployment => {
                self.write(&self.namespaced(), &state.deployments, name, patch, status)
                    .await
            }
            Kind::Set => {
                let resized = !status && patch.get("spec").is_some();
                let _pending = resized.then(|| state.pending_set_writes.begin(&Key::new(&state.namespace, name)));
                self.write(&self.namespaced(), &state.sets, name, patch, status).await
            }
            Kind::Machine => {
                self.write(&self.namespaced(), &state.machines, name, patch, status)
                    .await
            }
            Kind::Node => {
                let (Some(client), Some(target)) = (&self.target, &state.target) else {
                    return Ok(());
                };
                let api: LeanApi<Node> = LeanApi::all(client.clone());
                self.write(&api, &target.nodes, name, patch, status).await
            }
        }
    }

    async fn write<K>(
        &self,
        api: &LeanApi<K>,
        cache: &Cache<K>,
        name: &str,
        patch: Value,
        status: bool,
    ) -> kube::Result<()>
    where
        K: Indexed + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let parameters = PatchParams::default();
        let patch = Patch::Merge(patch);
        let written = if status {
            api.patch_status(name, &parameters, &patch).await
        } else {
            api.patch(name, &parameters, &patch).await
        };
        self.store_result(api, name, cache, written).await.map(|_| ())
    }

    async fn delete(&self, kind: Kind, name: &str, preconditions: Preconditions) -> kube::Result<()> {
        match kind {
            Kind::Set => {
                self.remove(&self.namespaced(), &self.state.sets, name, preconditions)
                    .await
            }
            Kind::Machine => {
                self.remove(&self.namespaced(), &self.state.machines, name, preconditions)
                    .await
            }
            Kind::Deployment | Kind::Node => Ok(()),
        }
    }

    async fn remove<K>(
        &self,
        api: &LeanApi<K>,
        cache: &Cache<K>,
        name: &str,
        preconditions: Preconditions,
    ) -> kube::Result<()>
    where
        K: Indexed + Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let parameters = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let known = cache.get(&Key::new(&self.state.namespace, name));
        match api.delete(name, &parameters).await {
            Ok(answer) => match answer {
                Some(leaving) => drop(self.wrote(cache, leaving)),
                None => {
                    if let Some(known) = known {
                        cache.removed(&*known);
                    }
                }
            },
            Err(error) if is_not_found(&error) => {
                if let Some(known) = known {
                    cache.removed(&*known);
                }
            }
            Err(error) => {
                if is_conflict(&error)
                    && let Ok(Some(newer)) = api.get_opt(name).await
                {
                    cache.read(newer);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    async fn create_set(&self, set: MachineSet) -> kube::Result<()> {
        let api = self.namespaced::<MachineSet>();
        match api.create(&PostParams::default(), &set).await {
            Ok(_) if defect!(SetNamedByChance) => {}
            Ok(created) => drop(self.wrote(&self.state.sets, created)),
            Err(error) => {
                if is_already_exists(&error)
                    && let Ok(Some(other)) = api.get_opt(&set.name_any()).await
                {
                    self.state.sets.read(other);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Creates machines in batches of one, two, four and so on, so that a systematic failure causes few requests.
    async fn create_machines(
        &self,
        names: &MachineNames,
        owner: Owner<'_>,
        machines: Vec<Machine>,
    ) -> kube::Result<()> {
        let Owner::Set(set) = owner else { return Ok(()) };
        let mut rest = machines;
        let mut batch = 1;
        while !rest.is_empty() {
            if self.is_outdated(owner) {
                // The change triggers another pass of the set.
                return Ok(());
            }
            let ignore_pending = defect!(NamedMachineDeletedBeforeScaleDown | SetSizedByItself);
            if !ignore_pending && self.state.pending_set_writes.contains(&Key::of(set), &self.state.sets) {
                return Err(conflict("the set is frozen, or its size is being written"));
            }
            let now: Vec<Machine> = rest.drain(..batch.min(rest.len())).collect();
            let results = join_all(now.into_iter().map(|machine| self.create_machine(names, set, machine))).await;
            let failed = results.into_iter().find_map(Result::err);
            if let Some(error) = failed {
                let text = format!("Error creating: {}", brief(&error));
                drop(
                    self.record_event(owner, EventType::Warning, "FailedCreate", &text)
                        .await,
                );
                return Err(error);
            }
            batch *= 2;
        }
        Ok(())
    }

    async fn create_machine(&self, names: &MachineNames, set: &MachineSet, mut machine: Machine) -> kube::Result<()> {
        let api = self.namespaced::<Machine>();
        let key = Key::of(set);
        for _ in 0..NAME_ATTEMPTS {
            let name = names.next(&key);
            machine.metadata.name = Some(name.clone());
            match api.create(&PostParams::default(), &machine).await {
                Ok(_) if defect!(CreatedMachinesCountWhenWatched) => return Ok(()),
                Ok(created) => {
                    self.wrote(&self.state.machines, created);
                    let text = format!("Created Machine: {name}");
                    drop(
                        self.record_event(Owner::Set(set), EventType::Normal, "SuccessfulCreate", &text)
                            .await,
                    );
                    return Ok(());
                }
                Err(error) if is_already_exists(&error) => {
                    let existing = api.get_opt(&name).await?;
                    let ours = existing.filter(|existing| {
                        controller(&existing.metadata).map(|reference| Some(&reference.uid))
                            == Some(set.metadata.uid.as_ref())
                    });
                    if let Some(ours) = ours {
                        self.state.machines.read(ours);
                        return Ok(());
                    }
                }
                Err(error) => {
                    if has_unknown_outcome(&error) {
                        names.reuse_first(&key, name);
                    }
                    return Err(error);
                }
            }
        }
        Err(conflict("all attempted names for a new machine are taken"))
    }

    async fn record_event(&self, owner: Owner<'_>, type_: EventType, reason: &str, message: &str) -> kube::Result<()> {
        match owner {
            Owner::Set(set) => self.recorder.record(&self.control, set, type_, reason, message).await,
            Owner::Deployment(one) => self.recorder.record(&self.control, one, type_, reason, message).await,
        }
    }
}

/// The event for a failed step: its reason and the start of its message. Creations of machines record their own events.
fn failure_event(owner: Owner<'_>, action: &OwnerAction) -> Option<(&'static str, String)> {
    match (owner, action) {
        (Owner::Set(_), OwnerAction::Delete { .. }) => Some(("FailedDelete", "Error deleting".to_owned())),
        (Owner::Deployment(_), OwnerAction::CreateSet(set)) => {
            let name = set.metadata.name.as_deref().unwrap_or_default();
            Some((
                "MachineSetCreateError",
                format!("Failed to create new machine set {name:?}"),
            ))
        }
        _ => None,
    }
}

/// Fails with a conflict unless the object on the API server is unchanged and is not being deleted.
async fn check_unchanged<K>(api: &LeanApi<K>, cache: &Cache<K>, object: &K) -> kube::Result<()>
where
    K: Indexed + Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let Some(live) = api.get_opt(&object.name_any()).await? else {
        cache.removed(object);
        return Err(conflict("the owner does not exist any more"));
    };
    let stays = live.uid() == object.uid() && live.meta().deletion_timestamp.is_none();
    let same = live.resource_version() == object.resource_version();
    cache.read(live);
    if !stays {
        return Err(conflict("the owner is being deleted or was replaced"));
    }
    // A decision on an older version may be outdated.
    if same {
        Ok(())
    } else {
        Err(conflict("the owner changed meanwhile"))
    }
}

/// A conflict that this process detected itself.
fn conflict(message: &str) -> kube::Error {
    kube::Error::Api(Status::failure(message, "Conflict").with_code(409).boxed())
}
