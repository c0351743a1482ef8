//! Tests of the decisions about machines: single rules as tables, plans as snapshots, and whole lifecycles in a simulated
//! world; and of the decisions about classes, sets, deployments and safety.
//!
//! # Tests of each acceptance list
//!
//! Paths are relative to `mcm/`; those without `src` are modules of this program (`core/tests/it/`). "Differs" marks lists
//! with deliberate differences; `docs/reference/compatibility.md` states the reasons.
//!
//! The acceptance list of the machine controller:
//!
//! | list | tests |
//! |---|---|
//! | health predicate, critical taint | `health`: `a_node_is_healthy_by_its_conditions`, `the_taint_of_critical_components_…` |
//! | health reconcile | `health`; `in_place::an_in_place_update_has_timeouts`, `in_place::the_update_result_on_the_node_…` |
//! | meltdown | `src/view/machine.rs`: `a_machine_fails_while_no_other_…`; `health::one_machine_of_a_deployment_fails_at_a_time` |
//! | machine validation | `creation::a_machine_without_a_valid_class_reference_fails_validation` |
//! | class validation, nodeTemplate validation | `creation::an_unusable_class_or_secret_…`, `creation::the_creation_waits_for_…`. Differs: a class without its Secret is not usable |
//! | creation flow | `creation` |
//! | creation map | `life::a_deletion_waits_for_a_creation_in_progress`. Differs: the queue replaces the map (`src/reconcile/queue.rs`) |
//! | deletion flow | `deletion`, with `deletion::drain`, `deletion::vm`, `deletion::node` |
//! | effective preserve value, annotation sync (predicate, write), state collection | `core/src/preservation/request.rs` |
//! | manage preservation, preserve, stop, new condition | `preservation::plans`; every cell against an oracle: `preservation::table`. Differs: this project has other rules (`docs/how-it-works/preservation-rules.md`) |
//! | drain needed | `preservation::plans`, `preservation::drains` |
//! | not bound, bound predicate | `preservation::inert`. Differs: there is no such predicate; a machine without a request is not changed |
//! | cordon | `preservation::plans::a_cordon_is_never_changed`. Differs: only users cordon preserved nodes |
//! | node annotation removal | `preservation::plans`: `a_changed_annotation_that_ended_…`, `the_scale_down_annotation_…` |
//! | template sync: labels, annotations, taints, virtual capacity | `node` |
//! | status similarity | `core/src/machine/similar.rs` |
//! | in-place label change detector, labels to condition, act | `in_place`. Differs: there is no detector, each change of the Node is reconciled |
//! | in-place drain | `in_place`. Differs: a missing Node ends the drain; upstream retries on NotFound |
//! | safety: delete and update events | `src/tests/safety.rs` |
//! | safety: API freeze | `safety`, all 24 combinations; its steps in `core/src/safety/api_health.rs` |
//! | safety: orphans | `core/src/safety/orphans/tests.rs`; `src/tests/safety.rs`. Differs: an orphan is deleted at a later check, not at the first |
//! | safety: unmanaged nodes | `core/src/safety/nodes.rs`. Differs: a Node whose VM has other tags is ignored |
//! | class controller | `core/src/class.rs`; `src/tests/classes.rs` |
//! | Secret finalizers | `class`; which Secrets are used: `core/src/class.rs` |
//! | userData | `core/src/machine/user_data.rs`; `creation::the_driver_gets_user_data_…`, `creation::without_a_target_cluster_…` |
//! | drain | `drain`, `deletion::drain` |
//! | pod volume infos | `src/view/drain/tests.rs`; `drain::shared_and_unknown_volumes_do_not_delay_a_drain` |
//! | PDB | `drain::a_budget_is_misconfigured_…`; which pods it covers: `src/view/drain/tests.rs` |
//! | permits | `src/view/machine.rs`. Differs: there are no permits; a machine with a pending status write counts as being replaced |
//! | helpers: creation timeout, timeout predicate | `creation::a_creation_that_fails_after_its_timeout_has_failed`; `rollout::set_rules::the_creation_timeout_of_a_new_machine` |
//! | helpers: node annotations, taints | `node`; `core/src/safety/nodes.rs` |
//! | helpers: health endpoint | `src/metrics/http.rs` |
//!
//! The acceptance list of sets and deployments:
//!
//! | list | tests |
//! |---|---|
//! | API validation | `rollout::deployments::an_invalid_deployment_…`, `rollout::sets::an_invalid_set_…` |
//! | handlers of deployments, sets and machines; lookups of both | `src/view/owners/tests.rs`. Differs: a failed in-place update and, in every strategy, a deleted machine trigger the deployment; an update without a relevant change triggers nothing |
//! | enqueue helpers | `src/reconcile/queue.rs` |
//! | deployment's reconcile | `rollout::reconcile`, `rollout::deployments`, `rollout::newest` |
//! | deployment's helpers: trigger-deletion, priority | `rollout::chosen`; deletion of sets, the finalizer: `rollout::reconcile` |
//! | the new set, nodeTemplate copy, string-map merge | `rollout::newest` |
//! | scale, sizes of the newest set | `rollout::sizes` |
//! | maxUnavailable | `core/src/deployment/bounds.rs` |
//! | node side effects | `rollout::nodes` |
//! | in place | `rollout::in_place_steps`, `rollout::in_place` |
//! | manage replicas | `rollout::sets`, `rollout::set_rules`; marked machines: `rollout::chosen` |
//! | set's reconcile | `rollout::sets`; preserved machines: `rollout::preserved` |
//! | claiming | `core/src/ownership.rs`, `core/src/selector.rs`; `rollout::sets::matching_orphans_…` |
//! | slow start | `src/tests/sets.rs` |
//!
//! Tests beyond the acceptance lists: the overshoot guard in `rollout::overshoot`, flags in `src/options/tests.rs`, metrics
//! in `src/metrics/tests.rs`, whole rollouts in fixed and random orders in `rollout::sequences` and `rollout::orders`, and
//! the process with a simulated API server in `src/tests`.

#[cfg(test)]
mod claims;
mod class;
#[cfg(test)]
mod cloud;
#[cfg(test)]
mod creation;
#[cfg(test)]
mod deletion;
#[cfg(test)]
mod dice;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod health;
#[cfg(test)]
mod health_check;
#[cfg(test)]
mod in_place;
#[cfg(test)]
mod life;
#[cfg(test)]
mod node;
#[cfg(test)]
mod patches;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod preservation;
#[cfg(test)]
mod remediation;
#[cfg(test)]
mod rollout;
#[cfg(test)]
mod safety;
#[cfg(test)]
mod update;
#[cfg(test)]
mod world;
