//! The tables of `docs/reference/cloud-faults.md`: every fault of a call and every event, with its class, meaning, and
//! tests.
//!
//! `DRYDOCK_WRITE_DOCS=1 cargo test -p fakecloud --test it table` writes them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fakecloud::read_rules;

const BEGIN: &str = "<!-- tables: written by a test of fakecloud, fakecloud/tests/it/table.rs -->\n";
const END: &str = "<!-- end of tables -->\n";

struct Row {
    /// A rule, a part of one, or a command.
    what: &'static str,
    class: &'static str,
    meaning: &'static str,
    tests: &'static [&'static str],
}

const fn legal(what: &'static str, meaning: &'static str, tests: &'static [&'static str]) -> Row {
    Row {
        what,
        class: "legal",
        meaning,
        tests,
    }
}

const fn byzantine(what: &'static str, meaning: &'static str, tests: &'static [&'static str]) -> Row {
    Row {
        what,
        class: "byzantine",
        meaning,
        tests,
    }
}

/// Fields that select calls. A test adds an action to each, so that it is a complete rule.
const MATCHES: [Row; 10] = [
    legal(
        "match: {call: createMachine}",
        "the call",
        &["a_rule_matches_by_call_and_machine"],
    ),
    legal(
        "match: {machine: 'worker-*'}",
        "the machine's name, with or without its namespace",
        &["a_rule_matches_by_call_and_machine"],
    ),
    legal(
        "match: {class: 'pool-*'}",
        "the machine class",
        &["a_rule_matches_by_class_zone_and_client"],
    ),
    legal(
        "match: {zone: local-1}",
        "the zone of the machine class",
        &["a_rule_matches_by_class_zone_and_client"],
    ),
    legal(
        "match: {client: 'mcm-*'}",
        "the name that the client gives",
        &[
            "a_rule_hits_only_matching_clients",
            "the_log_names_the_client_of_a_grpc_call",
        ],
    ),
    legal(
        "match: {skip: 1}",
        "number of matching calls that pass first",
        &["a_rule_hits_a_limited_number_of_calls_after_the_skipped_ones"],
    ),
    legal(
        "match: {times: 2}",
        "the maximum number of hits",
        &[
            "a_rule_hits_a_limited_number_of_calls_after_the_skipped_ones",
            "exhausted_rules_let_the_next_rule_hit",
        ],
    ),
    legal(
        "match: {probability: 0.3}",
        "the probability of a hit",
        &["a_rule_hits_with_its_probability_independently_of_other_rules"],
    ),
    legal(
        "match: {window: {from: 5m, until: 7m}}",
        "when, relative to the creation of the ledger",
        &["a_rule_is_active_only_within_its_window"],
    ),
    legal(
        "match: {throttle: {perSecond: 2, burst: 5}}",
        "rate of calls that pass; only calls beyond it are hit",
        &[
            "a_throttle_passes_calls_up_to_its_rate_and_hits_the_others",
            "a_throttle_rule_limits_the_rate_of_calls",
        ],
    ),
];

/// Effects of a rule.
const EFFECTS: [Row; 28] = [
    legal(
        "action: {code: Internal}",
        "any of the machine codes 1 to 17, without an effect",
        &[
            "every_machine_code_can_be_returned",
            "a_fault_returns_its_code_and_counts_its_hits",
        ],
    ),
    legal(
        "{action: {code: Internal, message: text}}",
        "the message of the error",
        &["a_fault_returns_its_code_and_counts_its_hits"],
    ),
    legal(
        "action: {error: quota}",
        "ResourceExhausted: the account's quota is used up",
        &["a_named_error_has_its_code_and_message"],
    ),
    legal(
        "action: {error: capacity}",
        "ResourceExhausted: the zone has no capacity",
        &["a_named_error_has_its_code_and_message"],
    ),
    legal(
        "action: {error: throttled}",
        "Unavailable: the rate limit is exceeded",
        &["a_named_error_has_its_code_and_message"],
    ),
    legal(
        "action: {error: credentialsExpired}",
        "Unauthenticated",
        &["a_named_error_has_its_code_and_message"],
    ),
    legal(
        "action: {error: credentialsWrong}",
        "Unauthenticated",
        &["a_named_error_has_its_code_and_message"],
    ),
    legal(
        "action: {error: denied}",
        "PermissionDenied",
        &["a_named_error_has_its_code_and_message"],
    ),
    legal(
        "action: {error: outage}",
        "Unavailable: the API is down",
        &["a_named_error_has_its_code_and_message"],
    ),
    legal(
        "action: {latency: 1s-10s}",
        "the reply, but not the effect, is delayed by a draw from this distribution",
        &[
            "the_latency_of_a_reply_is_drawn_for_each_call",
            "a_slow_call_commits_at_once_and_replies_late",
        ],
    ),
    legal(
        "{action: {code: Internal, at: afterCommit}}",
        "the effect commits, and the reply is the error",
        &["an_error_after_the_effect_leaves_a_vm_behind"],
    ),
    legal(
        "action: {lostReply: true}",
        "the effect commits, and the client's connection ends without a reply",
        &["a_lost_reply_leaves_the_vm_behind"],
    ),
    legal(
        "{match: {call: createMachine}, action: {effectDelay: 5m}}",
        "the VM is created later, whether or not the client still waits",
        &["a_delayed_creation_takes_effect_even_if_its_client_gave_up"],
    ),
    legal(
        "{match: {call: deleteMachine}, action: {effectDelay: 10m}}",
        "the VM is stopping for this long",
        &["a_slow_deletion_ends_after_its_delay_and_a_stuck_one_never_ends"],
    ),
    legal(
        "{match: {call: deleteMachine}, action: {stuck: true}}",
        "the VM is stopping until it is stepped",
        &["a_slow_deletion_ends_after_its_delay_and_a_stuck_one_never_ends"],
    ),
    legal(
        "{match: {call: createMachine}, action: {stuck: true}}",
        "the VM is pending until it is stepped",
        &["a_stuck_creation_creates_a_vm_that_never_boots"],
    ),
    legal(
        "{match: {call: createMachine}, action: {partial: nics, error: quota}}",
        "network interfaces are created, but no disks and no VM",
        &[
            "a_partial_creation_leaves_parts_that_the_next_attempt_uses",
            "a_driver_that_reuses_no_parts_leaks_them_at_every_attempt",
        ],
    ),
    legal(
        "{match: {call: createMachine}, action: {partial: disks, error: capacity}}",
        "network interfaces and disks are created, but no VM",
        &["a_partial_creation_leaves_parts_that_the_next_attempt_uses"],
    ),
    legal(
        "{match: {call: deleteMachine}, action: {partial: vm, code: Internal}}",
        "the VM is deleted, its disks and network interfaces are left behind",
        &["a_partial_deletion_leaves_disks_and_interfaces_until_the_next_attempt"],
    ),
    legal(
        "{match: {call: initializeMachine}, action: {partial: nics, code: Internal}}",
        "the first network interface is changed, the others are not",
        &["a_partial_initialization_changes_one_interface_and_the_vm_stays_uninitialized"],
    ),
    legal(
        "{match: {call: updateMachine}, action: {partial: tags, code: Internal}}",
        "tags are set, flags of network interfaces are not",
        &["a_partial_update_sets_tags_and_not_flags"],
    ),
    legal(
        "{match: {call: getMachineStatus}, action: {stale: {by: 30s}}}",
        "the reply shows the ledger as it was this long ago; also for listMachines",
        &["a_stale_reply_shows_the_ledger_of_an_earlier_time"],
    ),
    legal(
        "{match: {call: listMachines}, action: {stale: {calls: 3}}}",
        "the reply shows the ledger as it was this many matching calls ago; also for getMachineStatus",
        &[
            "a_reply_that_is_stale_by_calls_shows_the_state_at_an_earlier_call",
            "a_stale_reply_shows_the_ledger_before_earlier_calls",
        ],
    ),
    legal(
        "{match: {call: attachVolume}, action: {code: Internal}}",
        "a volume is not attached; also for detachVolume. The storage of a cluster retries",
        &[
            "attaching_and_detaching_volumes_can_fail",
            "rules_also_hit_the_storage_of_a_cluster",
        ],
    ),
    legal(
        "{match: {call: attachVolume}, action: {effectDelay: 30s}}",
        "the volume is attached later, and the reply is immediate; the storage of a cluster reports it when it is attached",
        &[
            "a_delayed_attachment_takes_effect_later_on_matching_machines",
            "the_storage_of_a_cluster_attaches_a_volume_after_the_delay_of_a_rule",
        ],
    ),
    byzantine(
        "{match: {call: deleteMachine}, action: {lie: true}}",
        "the reply reports success without an effect; also for createMachine and initializeMachine",
        &["a_lying_cloud_reports_success_without_an_effect"],
    ),
    byzantine(
        "{match: {call: getMachineStatus}, action: {lie: true}}",
        "an existing VM is not found; also for listMachines",
        &["a_lying_cloud_reports_success_without_an_effect"],
    ),
    byzantine(
        "{match: {call: createMachine}, action: {nameless: true}}",
        "the effect commits, and the reply does not name the node; also for getMachineStatus",
        &["a_reply_may_lack_the_node_name"],
    ),
];

/// Events of VMs, zones and the account, by commands of `fakecloud` and calls of the control contract.
const EVENTS: [Row; 22] = [
    legal(
        "fakecloud vm kill VM",
        "it dies: it stops and still exists",
        &[
            "a_killed_vm_still_exists_and_restarts_with_a_new_boot_id",
            "a_pending_vm_that_dies_does_not_boot",
        ],
    ),
    legal(
        "fakecloud vm stop VM",
        "it is switched off; start boots it again",
        &[
            "vms_are_listed_and_controlled",
            "a_quota_counts_existing_vms_and_capacity_running_ones",
        ],
    ),
    legal(
        "fakecloud vm reboot VM",
        "it restarts, with a new boot ID",
        &[
            "vms_are_listed_and_controlled",
            "after_a_kernel_panic_nothing_runs_until_the_next_boot",
        ],
    ),
    legal(
        "fakecloud vm delete VM",
        "it is deleted without the controller's knowledge",
        &["vms_are_listed_and_controlled"],
    ),
    legal(
        "fakecloud vm preempt VM --notice 2m",
        "its Node shows TerminationScheduled, then it stops",
        &["a_preempted_vm_has_a_condition_and_stops_after_the_notice"],
    ),
    legal(
        "fakecloud vm panic VM",
        "the cloud shows it as running, but nothing on it runs until the next boot",
        &["after_a_kernel_panic_nothing_runs_until_the_next_boot"],
    ),
    legal(
        "fakecloud vm fill-disk VM",
        "its Node has DiskPressure until the condition is cleared",
        &["a_full_disk_is_a_condition_of_the_node"],
    ),
    legal(
        "fakecloud vm hold VM",
        "it makes no transition until a step or the release",
        &[
            "a_held_vm_waits_for_a_step_or_the_release",
            "a_hold_also_applies_to_pending_vms_and_deletions",
        ],
    ),
    legal(
        "fakecloud vm tag VM KEY=VALUE",
        "its tags change without the controller's knowledge",
        &["an_update_changes_only_the_named_fields_and_keeps_foreign_tags"],
    ),
    legal(
        "fakecloud zone fail ZONE --failure api",
        "calls for its VMs return Unavailable; the VMs run",
        &["while_the_api_of_a_zone_is_down_its_vms_run_and_calls_about_them_fail"],
    ),
    legal(
        "fakecloud zone fail ZONE --failure compute",
        "its VMs stop and no VM boots; they boot again after recovery",
        &[
            "vms_stop_when_the_hosts_of_their_zone_fail_and_boot_again_after_recovery",
            "a_second_failure_keeps_track_of_vms_that_the_first_one_stopped",
        ],
    ),
    legal(
        "fakecloud zone fail ZONE --failure both",
        "API and compute",
        &["a_vm_that_was_switched_off_stays_off_when_its_zone_recovers"],
    ),
    legal(
        "fakecloud zone fail ZONE --failure brownOut",
        "some calls return Unavailable, the others are slow",
        &["in_a_brown_out_some_calls_fail_and_the_others_are_slow"],
    ),
    legal(
        "fakecloud zone restore ZONE",
        "the zone recovers",
        &["vms_stop_when_the_hosts_of_their_zone_fail_and_boot_again_after_recovery"],
    ),
    legal(
        "fakecloud quota set 10",
        "creations beyond it return ResourceExhausted; every existing VM counts",
        &["a_quota_counts_existing_vms_and_capacity_running_ones"],
    ),
    legal(
        "fakecloud capacity set 10",
        "creations and starts beyond it return ResourceExhausted; stopped VMs do not count",
        &["a_quota_counts_existing_vms_and_capacity_running_ones"],
    ),
    legal(
        "rateLimits",
        "calls beyond the rate of their API return Unavailable",
        &["each_api_has_its_rate"],
    ),
    legal(
        "apiTokens, SetCredentials",
        "calls with other credentials return Unauthenticated",
        &["credentials_are_checked_at_every_call_and_can_be_replaced"],
    ),
    legal(
        "duplicateCreates: two",
        "two creations for a machine create two VMs",
        &["with_duplicate_creates_two_a_second_creation_creates_a_second_vm"],
    ),
    legal(
        "requireInitialize: true",
        "VMs are Uninitialized until InitializeMachine",
        &["an_uninitialized_vm_is_named_in_the_error"],
    ),
    legal(
        "bootDelays",
        "VMs of some types and zones boot slowly",
        &["the_first_matching_boot_delay_applies"],
    ),
    legal(
        "kill -9 of fakecloud with --data",
        "no VM is lost, and no deleted VM is restored",
        &["a_process_killed_at_any_time_loses_no_vm_and_restores_no_deleted_one"],
    ),
];

fn table(rows: &[Row], first: &str) -> String {
    let mut text = format!("| {first} | class | what happens | proved by |\n|---|---|---|---|\n");
    for row in rows {
        let tests: Vec<String> = row.tests.iter().map(|test| format!("`{test}`")).collect();
        writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            row.what,
            row.class,
            row.meaning,
            tests.join(", ")
        )
        .unwrap();
    }
    text
}

fn written() -> String {
    format!(
        "### Which calls\n\n{}\n### What happens to them\n\n{}\n### VMs, zones and the account\n\n{}",
        table(&MATCHES, "match"),
        table(&EFFECTS, "action"),
        table(&EVENTS, "event")
    )
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/cloud-faults.md")
}

#[test]
fn the_page_has_the_current_tables() {
    let page = page();
    let text = std::fs::read_to_string(&page).unwrap();
    let (head, rest) = text
        .split_once(BEGIN)
        .expect("the page has the marker of the begin of the tables");
    let (_, tail) = rest
        .split_once(END)
        .expect("the page has the marker of the end of the tables");
    let expected = format!("{head}{BEGIN}{}{END}{tail}", written());
    if std::env::var_os("DRYDOCK_WRITE_DOCS").is_some() {
        std::fs::write(&page, expected).unwrap();
        return;
    }
    assert!(
        text == expected,
        "docs/reference/cloud-faults.md is stale; DRYDOCK_WRITE_DOCS=1 cargo test -p fakecloud --test it table writes \
         it"
    );
}

#[test]
fn every_rule_of_the_tables_can_be_added() {
    let in_braces = |what: &str| {
        if what.starts_with('{') {
            what.to_owned()
        } else {
            format!("{{{what}}}")
        }
    };
    for row in &EFFECTS {
        read_rules(row.what, &in_braces(row.what)).unwrap();
    }
    for row in &MATCHES {
        read_rules(row.what, &format!("{{action: {{code: Internal}}, {}}}", row.what)).unwrap();
    }
}

#[test]
fn every_field_of_a_rule_is_in_the_tables() {
    let source = include_str!("../../api/src/rule/mod.rs");
    let fields = ["pub struct Match<", "pub struct Action<"]
        .into_iter()
        .flat_map(|structure| {
            let body = source.split(structure).nth(1).unwrap().split("\n}").next().unwrap();
            body.lines()
                .filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next())
        });
    let camel = |name: &str| {
        let mut parts = name.split('_');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + &part[..1].to_uppercase() + &part[1..])
    };
    let fields: BTreeSet<String> = fields.map(camel).collect();
    assert_eq!(fields.len(), 22, "{fields:?}");
    for field in fields {
        let named = |row: &Row| row.what.contains(&format!("{field}:"));
        assert!(MATCHES.iter().chain(&EFFECTS).any(named), "{field} is in no table");
    }
}

#[test]
fn every_test_of_the_tables_exists() {
    fn read(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut sources = String::new();
    for folder in ["src", "tests"] {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut sources);
    }
    for test in MATCHES.iter().chain(&EFFECTS).chain(&EVENTS).flat_map(|row| row.tests) {
        assert!(sources.contains(&format!("fn {test}(")), "there is no test {test}");
    }
}
