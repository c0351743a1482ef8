//! The regression corpus: bugs of real machine controllers, one entry per file.
//!
//! Each entry has its scenarios, with the times at which the bug happened, and the invariants that must detect
//! its defect. The defects themselves belong to `mcm`, next to the rule that they break, behind the feature
//! `mutants`.

mod all_sets_scaled_to_zero;
mod api_path_outage_meltdown;
mod auto_max_picks_wrong_victim;
mod auto_preserve_stalls_roll;
mod bad_class_burns_rollout;
mod bootstrap_token_expired;
mod ca_annotation_typo;
mod ca_breaks_meltdown_limit;
mod ca_kills_replacement;
mod ca_removes_idle_replacement;
mod ca_trigger_double_scale_down;
mod change_in_response_unseen;
mod class_finalizer_delays_create;
mod cordon_inherited;
mod cordoned_leftover_after_roll;
mod crashloop_never_failed;
mod crashloop_runs_late;
mod create_then_delete;
mod create_vs_orphan_collector;
mod credentials_rotated;
mod delete_during_create;
mod delete_says_notfound;
mod describe_misses_fresh_vm;
mod double_vm_on_preserve;
mod drain_buffer_deadlock;
mod drain_of_never_joined;
mod drain_outlives_timeout;
mod drain_storm_starves_create;
mod duplicate_machinesets;
mod expiry_before_annotation;
pub(crate) mod external_remediation;
mod failed_create_leaves_vm;
mod failed_machine_is_created_again;
mod failed_update_waits_for_itself;
mod finalizer_retry_budget;
mod flap_resets_creation_timeout;
mod flap_resets_health_timeout;
mod foreign_node_adopted;
mod foreign_node_claimed;
mod freeze_incomplete;
mod freeze_on_scale_down;
mod half_frozen;
pub(crate) mod health_check_steps;
mod health_checks;
mod inline_attachment_crashes_drain;
mod inplace_transfer_loses_phase;
mod list_lag_duplicates_vm;
mod lost_lease_leaks_vms;
mod missing_class_blocks_deletion;
mod negative_unavailable;
mod no_evictions_no_end;
mod no_phase_17h;
mod node_finalizer_orphan;
mod old_set_below_available;
mod one_too_many_on_scale_down;
mod orphan_massacre_control_api_down;
mod orphan_massacre_restore_race;
mod orphan_node_after_lost_label;
mod outage_timer_never_reset;
mod overshoot_on_stale_cache;
mod partial_create_leaks_nic;
mod pdb_check_hot_retry;
mod pdb_forever;
mod pending_without_node_label;
mod prefer_no_schedule_sticks;
mod premature_force_drain;
mod preservation_defects;
mod preserve_in_any_strategy;
mod preserve_not_inert;
mod preserved_counts_as_broken;
mod provider_id_write_lost;
mod removal_unobserved;
mod request_outlives_check;
mod requested_counts_as_available;
mod requests_stop_rollout;
mod restart_loses_provider_id;
mod scale_down_picks_wrong;
mod scale_up_feeds_old_set;
mod scale_up_while_deleting;
mod selector_drift_spawns_forever;
mod stage_in_an_error;
mod stale_desired_replicas_blocks_roll;
mod stale_node_adopted;
mod stale_pdb_status;
mod status_churn_fills_etcd;
mod terminated_vm_confuses_lookup;
mod terminating_ignored_in_surge;
mod terminating_without_deletion;
mod token_ids_collide;
mod two_mcms_one_target;
mod unimplemented_status_create_loop;
mod unique_pod_runs_twice;
mod unknown_blocks_rollout;
mod unreachable_node_volumes;
mod unreported_defects;
mod update_hot_loop;
mod user_cordon_survives;
pub(crate) mod worlds;
mod zone_outage_meltdown;

use std::time::Duration;

use harness::regression::Entry;
use mcm_api::Phase;
use scenario::api_faults::{Action, At};
use scenario::builder::{all, boot_delay, budget, delete, deployment, keep, phase, pods, slack, vm_count, workload};
use scenario::expect::{Condition, PodState};
use scenario::{DurationExpression, Scenario, StageKind, Step};

use self::worlds::merge;

/// All entries, ordered by number.
pub fn regressions() -> Vec<Entry> {
    let mut entries = vec![
        orphan_massacre_control_api_down::entry(),
        orphan_massacre_restore_race::entry(),
        create_vs_orphan_collector::entry(),
        lost_lease_leaks_vms::entry(),
        restart_loses_provider_id::entry(),
        provider_id_write_lost::entry(),
        list_lag_duplicates_vm::entry(),
        describe_misses_fresh_vm::entry(),
        failed_create_leaves_vm::entry(),
        delete_during_create::entry(),
        delete_says_notfound::entry(),
        partial_create_leaks_nic::entry(),
        terminated_vm_confuses_lookup::entry(),
        credentials_rotated::entry(),
        unimplemented_status_create_loop::entry(),
        freeze_incomplete::entry(),
        api_path_outage_meltdown::entry(),
        zone_outage_meltdown::entry(),
        ca_breaks_meltdown_limit::entry(),
        unknown_blocks_rollout::entry(),
        half_frozen::entry(),
        freeze_on_scale_down::entry(),
        drain_storm_starves_create::entry(),
        drain_outlives_timeout::entry(),
        pdb_forever::entry(),
        premature_force_drain::entry(),
        pdb_check_hot_retry::entry(),
        stale_pdb_status::entry(),
        drain_of_never_joined::entry(),
        drain_buffer_deadlock::entry(),
        unreachable_node_volumes::entry(),
        flap_resets_creation_timeout::entry(),
        flap_resets_health_timeout::entry(),
        bootstrap_token_expired::entry(),
        crashloop_never_failed::entry(),
        crashloop_runs_late::entry(),
        scale_down_picks_wrong::entry(),
        cordoned_leftover_after_roll::entry(),
        ca_trigger_double_scale_down::entry(),
        ca_kills_replacement::entry(),
        create_then_delete::entry(),
        one_too_many_on_scale_down::entry(),
        overshoot_on_stale_cache::entry(),
        duplicate_machinesets::entry(),
        selector_drift_spawns_forever::entry(),
        all_sets_scaled_to_zero::entry(),
        scale_up_feeds_old_set::entry(),
        stale_desired_replicas_blocks_roll::entry(),
        old_set_below_available::entry(),
        terminating_ignored_in_surge::entry(),
        scale_up_while_deleting::entry(),
        prefer_no_schedule_sticks::entry(),
        ca_annotation_typo::entry(),
        terminating_without_deletion::entry(),
        inplace_transfer_loses_phase::entry(),
        bad_class_burns_rollout::entry(),
        ca_removes_idle_replacement::entry(),
        orphan_node_after_lost_label::entry(),
        node_finalizer_orphan::entry(),
        pending_without_node_label::entry(),
        stale_node_adopted::entry(),
        cordon_inherited::entry(),
        two_mcms_one_target::entry(),
        foreign_node_adopted::entry(),
        finalizer_retry_budget::entry(),
        class_finalizer_delays_create::entry(),
        update_hot_loop::entry(),
        status_churn_fills_etcd::entry(),
        missing_class_blocks_deletion::entry(),
        no_phase_17h::entry(),
        user_cordon_survives::entry(),
        expiry_before_annotation::entry(),
        double_vm_on_preserve::entry(),
        preserve_not_inert::entry(),
        preserve_in_any_strategy::entry(),
        auto_preserve_stalls_roll::entry(),
        auto_max_picks_wrong_victim::entry(),
        preserved_counts_as_broken::entry(),
    ];
    entries.extend(health_checks::entries());
    entries.extend([
        outage_timer_never_reset::entry(),
        no_evictions_no_end::entry(),
        stage_in_an_error::entry(),
        failed_machine_is_created_again::entry(),
        failed_update_waits_for_itself::entry(),
        inline_attachment_crashes_drain::entry(),
        removal_unobserved::entry(),
        token_ids_collide::entry(),
    ]);
    entries.extend(preservation_defects::entries());
    entries.extend(unique_pod_runs_twice::entries());
    entries.push(foreign_node_claimed::entry());
    entries.push(negative_unavailable::entry());
    entries.push(change_in_response_unseen::entry());
    entries.push(request_outlives_check::entry());
    entries.push(requested_counts_as_available::entry());
    entries.push(requests_stop_rollout::entry());
    entries.extend(unreported_defects::entries());
    entries
}

/// The machines' label.
pub(crate) const POOL: &str = "md-a";

/// A scenario with the exact production times of an entry.
fn story(name: &str, about: &str) -> Scenario {
    Scenario::new(name, about).only_on([StageKind::Sim], "its times are those at which the bug happened")
}

/// The machine is Running on its only VM.
fn well(machine: &str) -> Condition {
    all([phase(machine, Phase::Running), vm_count(machine, 1)])
}

/// How long a machine may take from its creation to Running.
fn joining() -> DurationExpression {
    boot_delay() + slack()
}

/// A machine with a pod whose eviction a disruption budget blocks.
fn undrainable(name: &str, about: &str) -> Scenario {
    story(name, about)
        .keeper(POOL, 0, serde_json::Value::Null)
        .step(keep(1))
        .step(deployment(workload("web")))
        .step(budget("web", 0))
        .eventually(
            joining() + slack(),
            pods("web").on("md-a-1").are(PodState::Ready).exactly(1),
        )
}

/// Requests are refused with this code, without effect.
fn refused(code: u16) -> Action {
    Action::Fail {
        code,
        at: At::BeforeCommit,
        retry_after: None,
        message: None,
    }
}

/// Requests take this much longer.
fn delayed(by: Duration) -> Action {
    Action::Delay {
        at: At::BeforeCommit,
        by,
    }
}

/// Deletes an object and removes its finalizers.
fn removed(kind: &str, name: &str) -> [Step; 2] {
    let bare = serde_json::json!({ "metadata": { "finalizers": null } });
    [delete(kind, name), merge(kind, name, bare)]
}
