//! The decisions about machines: tables a rule, plans as snapshots, and whole lives in a small world. Those about classes,
//! sets and deployments, and safety, too.
//!
//! # Where the cases of each acceptance list are
//!
//! Paths are below `mcm/`; those without `src` are modules of this program (`core/tests/it/`). Where a list is decided
//! otherwise, it says so; `docs/reference/compatibility.md` has the reasons.
//!
//! The acceptance list of the machine controller:
//!
//! | list | tests |
//! |---|---|
//! | health predicate, critical taint | `health`: `a_node_is_healthy_by_its_conditions`, `the_taint_of_critical_components_…` |
//! | health reconcile | `health`; `in_place::an_update_in_place_has_its_timeouts`, `in_place::the_result_on_the_node_…` |
//! | meltdown | `src/view.rs`: `a_machine_fails_while_no_other_…`; `health::one_machine_of_a_deployment_fails_at_a_time` |
//! | machine validation | `creation::a_machine_that_names_no_class_is_told_so` |
//! | class validation, nodeTemplate validation | `creation::a_class_or_secret_that_is_not_usable_…`, `…that_has_no_finalizer_yet_…`. Otherwise: without its Secret a class is not usable |
//! | creation flow | `creation` |
//! | creation map | `life::a_deletion_waits_for_a_creation_that_is_under_way`. Otherwise: the queue is the map (`src/queue.rs`) |
//! | deletion flow | `deletion`, with `deletion::drain`, `deletion::vm`, `deletion::node` |
//! | effective preserve value, annotation sync (predicate, write), state collection | `core/src/preservation/request.rs` |
//! | manage preservation, preserve, stop, new condition | `preservation::plans`; every cell against an oracle: `preservation::table`. Otherwise: by rules of its own (`docs/how-it-works/preservation-rules.md`) |
//! | drain needed | `preservation::plans`, `preservation::drains` |
//! | not bound, bound predicate | `preservation::inert`. Otherwise: there is no such predicate, and whoever asks for nothing is not touched |
//! | cordon | `preservation::plans::a_cordon_is_never_touched`. Otherwise: a cordon is a person's |
//! | node annotation removal | `preservation::plans`: `what_ended_a_preservation_stays_…`, `the_autoscalers_annotation_…` |
//! | template sync: labels, annotations, taints, virtual capacity | `node` |
//! | status similarity | `core/src/machine/similar.rs` |
//! | in-place label change detector, labels to condition, act | `in_place`. Otherwise: there is no detector, each change of the Node is looked at |
//! | in-place drain | `in_place`. Otherwise: that the Node is missing decides, where NotFound would be tried again |
//! | safety: delete and update events | `src/safety.rs` |
//! | safety: API freeze | `safety`, all 24 combinations; its steps in `core/src/safety/api_health.rs` |
//! | safety: orphans | `core/src/safety/orphans/tests.rs`; `src/controllers/tests/safety.rs`. Otherwise: collected at a later look, not at the first |
//! | safety: unmanaged nodes | `core/src/safety/nodes.rs`. Otherwise: a Node whose VM has other tags is nobody's business |
//! | class controller | `core/src/class.rs`; `src/controllers/tests/classes.rs` |
//! | Secret finalizers | `class`; who needs them: `core/src/class.rs` |
//! | userData | `core/src/machine/user_data.rs`; `creation::the_driver_is_given_user_data_that_is_filled_in`, `…without_a_target_cluster_…` |
//! | drain | `drain`, `deletion::drain` |
//! | pod volume infos | `src/drain_view/tests.rs`; `drain::volumes_that_tell_nothing_hold_nothing_up` |
//! | PDB | `drain::a_budget_is_misconfigured_…`; which pods it covers: `src/drain_view/tests.rs` |
//! | permits | `src/view.rs`. Otherwise: there are none; a machine that is being written counts as taken |
//! | helpers: creation timeout, timeout predicate | `creation::a_creation_that_fails_after_its_timeout_has_failed`; `rollout::set_rules::the_creation_timeout_of_a_new_machine` |
//! | helpers: node annotations, taints | `node`; `core/src/safety/nodes.rs` |
//! | helpers: health endpoint | `src/http.rs` |
//!
//! The acceptance list of sets and deployments:
//!
//! | list | tests |
//! |---|---|
//! | API validation | `rollout::deployments::an_invalid_deployment_…`, `rollout::sets::an_invalid_set_…` |
//! | handlers of deployments, sets and machines; lookups of both | `src/world_sets/tests.rs`. Otherwise: a failed update in place wakes its deployment, and so does a machine that goes, whatever the strategy; one that says nothing new wakes nobody |
//! | enqueue helpers | `src/queue.rs` |
//! | deployment's reconcile | `rollout::reconcile`, `rollout::deployments`, `rollout::newest` |
//! | deployment's helpers: trigger-deletion, priority | `rollout::chosen`; deleting sets, the finalizer: `rollout::reconcile` |
//! | the new set, nodeTemplate copy, string-map merge | `rollout::newest` |
//! | scale, sizes of the newest set | `rollout::sizes` |
//! | maxUnavailable | `core/src/deployment/bounds.rs` |
//! | node side effects | `rollout::nodes` |
//! | in place | `rollout::in_place_steps`, `rollout::in_place` |
//! | manage replicas | `rollout::sets`, `rollout::set_rules`; machines that are marked: `rollout::chosen` |
//! | set's reconcile | `rollout::sets`; preserved ones: `rollout::preserved` |
//! | claiming | `core/src/ownership.rs`, `core/src/selector.rs`; `rollout::sets::orphans_that_match_…` |
//! | slow start | `src/controllers/tests/sets.rs` |
//!
//! What no list asks for: the brake in `rollout::overshoot`, flags in `src/options/tests.rs`, metrics in
//! `src/metrics/tests.rs`, whole rollouts in any order in `rollout::sequences` and `rollout::orders`, the shell over a
//! server in `src/controllers/tests`.

#[cfg(test)]
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
mod rollout;
#[cfg(test)]
mod safety;
#[cfg(test)]
mod update;
#[cfg(test)]
mod world;
