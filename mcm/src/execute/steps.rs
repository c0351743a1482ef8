//! The steps of plans about sets and deployments.

use std::fmt::Display;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Resource, ResourceExt};
use mcm_api::{Machine, MachineDeployment, MachineSet};
use mcm_core::event::EventType;
use mcm_core::ownership::controller;
use mcm_core::steps::{Act, Kind, Plan};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ActionExecutor;
use crate::cache::{Cache, Indexed, Key};
use crate::error::{brief, is_already_exists, is_conflict, is_not_found};
use crate::memory::{MachineNames, Trouble};
use crate::view::{Trigger, Work};

/// How often another name is drawn when one is taken.
const DRAWS: usize = 5;

/// The object that a plan is about.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'a> {
    Set(&'a MachineSet),
    Deployment(&'a MachineDeployment),
}

/// How the steps of a plan ended.
pub(crate) enum Ended {
    /// All were performed; `true`: machines were made.
    Done(bool),
    /// All were performed but for some that nothing else depends on, a Node's marks: they are to be tried again, after a
    /// while.
    Partly(Trouble),
    /// This process leads no more.
    NotLeading,
    /// Somebody else wrote an object meanwhile: what it is now is known.
    Conflict,
    /// A set of that name is there already.
    Taken(String),
    /// A set could not be made: its name, and why.
    NotMade(String),
    /// Another step failed.
    Failed(String),
}

impl ActionExecutor {
    /// Performs the steps on behalf of `owner`. What other work they mean is added to `triggers`.
    pub(crate) async fn perform_steps<R: Display>(
        &self,
        names: &MachineNames,
        owner: Owner<'_>,
        plan: Plan<R>,
        triggers: &mut Vec<Trigger>,
    ) -> Ended {
        let (mut made, mut left) = (false, None);
        // One look at the owner is enough for all that it adopts.
        let adopts = |act: &Act| matches!(act, Act::Adopt { .. });
        if plan.steps.iter().any(|step| adopts(&step.act)) && self.may_act() {
            match self.look_at(owner).await {
                Ok(()) => {}
                Err(error) if is_conflict(&error) => return Ended::Conflict,
                Err(error) => return Ended::Failed(brief(&error)),
            }
        }
        for step in plan.steps {
            if !self.may_act() {
                return Ended::NotLeading;
            }
            let counts = match (owner, &step.act) {
                (_, Act::Delete { .. } | Act::CreateMachines(_)) => true,
                (Owner::Deployment(_), Act::Patch { kind, .. }) => *kind == Kind::Set,
                _ => false,
            };
            if counts && self.is_outdated(owner) {
                return Ended::Conflict;
            }
            let may_fail = step.act.may_fail();
            let tells = matches!(step.act, Act::RecordEvent { .. });
            made |= matches!(step.act, Act::CreateMachines(_));
            let set = match &step.act {
                Act::CreateSet(set) => set.metadata.name.clone(),
                _ => None,
            };
            let told = when_refused(owner, &step.act);
            match self.step(names, owner, step.act, triggers).await {
                Ok(()) => {}
                Err(error) if may_fail => {
                    tracing::debug!(error = brief(&error), "a step failed; the rest does not depend on it");
                    if !tells && !is_not_found(&error) {
                        left = Some(Trouble::of(is_conflict(&error)));
                    }
                }
                Err(error) if is_already_exists(&error) => return Ended::Taken(set.unwrap_or_default()),
                Err(error) if is_conflict(&error) || is_not_found(&error) => return Ended::Conflict,
                Err(error) => {
                    tracing::info!(reason = %step.reason, error = brief(&error), "a step failed");
                    if let Some((reason, what)) = told {
                        let text = format!("{what}: {}", brief(&error));
                        drop(self.tell(owner, EventType::Warning, reason, &text).await);
                    }
                    let text = brief(&error);
                    return match set {
                        Some(set) => Ended::NotMade(format!("{set:?}: {text}")),
                        None => Ended::Failed(text),
                    };
                }
            }
        }
        left.map_or(Ended::Done(made), Ended::Partly)
    }

    /// Whether the owner's spec was changed since it was decided on: what was surplus may be wanted again, and what was missing may not.
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
        act: Act,
        triggers: &mut Vec<Trigger>,
    ) -> kube::Result<()> {
        match act {
            Act::Patch { kind, name, patch } => {
                if kind == Kind::Machine {
                    let work = Work::Machine(Key::new(&self.state.namespace, &name));
                    let hurry = patch.get("spec").is_some();
                    triggers.push(Trigger { work, hurry });
                }
                self.patch(kind, &name, patch, false).await
            }
            Act::WriteStatus { kind, name, patch } => self.patch(kind, &name, patch, true).await,
            Act::Adopt { kind, name, patch } => self.patch(kind, &name, patch, false).await,
            Act::Delete {
                kind,
                name,
                uid,
                resource_version,
            } => self.delete(kind, &name, Preconditions { uid, resource_version }).await,
            Act::CreateSet(set) => self.create_set(*set).await,
            Act::CreateMachines(machines) => {
                if defect!(CachedOwnerTrusted) {
                    return self.create_machines(names, owner, machines).await;
                }
                self.look_at(owner).await?;
                self.create_machines(names, owner, machines).await
            }
            Act::RecordEvent { type_, reason, message } => self.tell(owner, type_, reason, &message).await,
        }
    }

    /// Whether the owner is still the one that was decided on, and stays: the answer comes from the server.
    async fn look_at(&self, owner: Owner<'_>) -> kube::Result<()> {
        match owner {
            Owner::Set(set) => still_there(&self.namespaced::<MachineSet>(), &self.state.sets, set).await,
            Owner::Deployment(deployment) => {
                let api = self.namespaced::<MachineDeployment>();
                still_there(&api, &self.state.deployments, deployment).await
            }
        }
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.control.clone(), &self.state.namespace)
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
                let _hold = resized.then(|| state.pending_set_writes.begins(&Key::new(&state.namespace, name)));
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
                let api: Api<Node> = Api::all(client.clone());
                self.write(&api, &target.nodes, name, patch, status).await
            }
        }
    }

    async fn write<K>(&self, api: &Api<K>, cache: &Cache<K>, name: &str, patch: Value, status: bool) -> kube::Result<()>
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
        self.learn(api, name, cache, written).await.map(|_| ())
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
        api: &Api<K>,
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
            Ok(answer) => match answer.left() {
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
                    cache.wrote(newer);
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
                    self.state.sets.wrote(other);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// One, then two, then four at a time and so on: what cannot work is not tried a hundred times.
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
                // The change wakes the set, which then counts anew.
                return Ok(());
            }
            let heedless = defect!(NamedMachineDeletedBeforeScaleDown | SetSizedByItself);
            if !heedless && self.state.pending_set_writes.holds(&Key::of(set), &self.state.sets) {
                return Err(refusal("the set is frozen, or its size is being written"));
            }
            let now: Vec<Machine> = rest.drain(..batch.min(rest.len())).collect();
            let results = join_all(now.into_iter().map(|machine| self.create_machine(names, set, machine))).await;
            let failed = results.into_iter().find_map(Result::err);
            if let Some(error) = failed {
                let text = format!("Error creating: {}", brief(&error));
                drop(self.tell(owner, EventType::Warning, "FailedCreate", &text).await);
                return Err(error);
            }
            batch *= 2;
        }
        Ok(())
    }

    async fn create_machine(&self, names: &MachineNames, set: &MachineSet, mut machine: Machine) -> kube::Result<()> {
        let api = self.namespaced::<Machine>();
        let key = Key::of(set);
        for _ in 0..DRAWS {
            let name = names.next(&key);
            machine.metadata.name = Some(name.clone());
            match api.create(&PostParams::default(), &machine).await {
                Ok(_) if defect!(CreatedMachinesCountWhenWatched) => return Ok(()),
                Ok(created) => {
                    self.wrote(&self.state.machines, created);
                    let text = format!("Created Machine: {name}");
                    drop(
                        self.tell(Owner::Set(set), EventType::Normal, "SuccessfulCreate", &text)
                            .await,
                    );
                    return Ok(());
                }
                Err(error) if is_already_exists(&error) => {
                    let there = api.get_opt(&name).await?;
                    let ours = there.filter(|there| {
                        controller(&there.metadata).map(|reference| Some(&reference.uid))
                            == Some(set.metadata.uid.as_ref())
                    });
                    if let Some(ours) = ours {
                        self.wrote(&self.state.machines, ours);
                        return Ok(());
                    }
                }
                Err(error) => {
                    if is_doubtful(&error) {
                        names.doubt(&key, name);
                    }
                    return Err(error);
                }
            }
        }
        Err(refusal("no name for a new machine is free"))
    }

    async fn tell(&self, owner: Owner<'_>, type_: EventType, reason: &str, message: &str) -> kube::Result<()> {
        match owner {
            Owner::Set(set) => self.recorder.record(&self.control, set, type_, reason, message).await,
            Owner::Deployment(one) => self.recorder.record(&self.control, one, type_, reason, message).await,
        }
    }
}

/// The event that tells of a refused step, and how its text begins. Machines that are refused are told of one by one.
fn when_refused(owner: Owner<'_>, act: &Act) -> Option<(&'static str, String)> {
    match (owner, act) {
        (Owner::Set(_), Act::Delete { .. }) => Some(("FailedDelete", "Error deleting".to_owned())),
        (Owner::Deployment(_), Act::CreateSet(set)) => {
            let name = set.metadata.name.as_deref().unwrap_or_default();
            Some((
                "MachineSetCreateError",
                format!("Failed to create new machine set {name:?}"),
            ))
        }
        _ => None,
    }
}

/// Fails unless the server has the object, of the same uid and not being deleted.
async fn still_there<K>(api: &Api<K>, cache: &Cache<K>, object: &K) -> kube::Result<()>
where
    K: Indexed + Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let Some(live) = api.get_opt(&object.name_any()).await? else {
        cache.removed(object);
        return Err(refusal("the owner is gone"));
    };
    let stays = live.uid() == object.uid() && live.meta().deletion_timestamp.is_none();
    let same = live.resource_version() == object.resource_version();
    cache.wrote(live);
    if !stays {
        return Err(refusal("the owner is being deleted, or another one of its name"));
    }
    // What was decided on an older version may no longer be wanted.
    if same {
        Ok(())
    } else {
        Err(refusal("the owner was written meanwhile"))
    }
}

/// A conflict of our own finding: decide again.
fn refusal(message: &str) -> kube::Error {
    kube::Error::Api(Status::failure(message, "Conflict").with_code(409).boxed())
}

/// Whether the request may have had its effect all the same.
fn is_doubtful(error: &kube::Error) -> bool {
    !matches!(error, kube::Error::Api(status) if status.code < 500)
}
