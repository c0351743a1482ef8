//! Which VMs are collected, when, and which are kept.

use std::collections::BTreeMap;

use mcm_api::machine::LastOperation;
use rstest::rstest;

use super::*;

const SETTINGS: fn() -> Settings = || Settings {
    period: Duration::from_mins(30),
    maximum: 30,
};

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn machine(provider_id: &str, phase: Option<Phase>) -> Machine {
    let mut machine = Machine::default();
    machine.metadata.uid = Some("u1".into());
    machine.spec.provider_id = provider_id.into();
    machine.status.current_status.phase = phase;
    machine
}

fn with_several(mut machine: Machine) -> Machine {
    machine.status.last_operation = Some(LastOperation {
        error_code: "OutOfRange".into(),
        ..LastOperation::default()
    });
    machine
}

fn vms(all: &[(&str, &str)]) -> BTreeMap<ProviderId, MachineName> {
    all.iter()
        .map(|(id, name)| ((*id).try_into().unwrap(), (*name).try_into().unwrap()))
        .collect()
}

/// The view of a process that started at minute 0.
fn view(all: &[(&str, &str)], machines: &[(&str, Machine)]) -> View {
    View {
        started: at(0),
        listings: vec![Listing {
            class: "small".into(),
            vms: vms(all),
        }],
        incomplete: false,
        machines: machines
            .iter()
            .map(|(name, machine)| ((*name).try_into().unwrap(), Known::of(machine)))
            .collect(),
        sightings: BTreeMap::new(),
        deletions: BTreeMap::new(),
    }
}

/// Runs passes until VMs are due or no further pass is requested. Returns the due VMs of the last pass, and the elapsed
/// time.
fn run_passes(mut view: View, from: Timestamp) -> (Vec<ProviderId>, Duration) {
    let mut now = from;
    for _ in 0..4 {
        let plan = examine(&view, now, &SETTINGS());
        if !plan.due.is_empty() || plan.wake.is_none() {
            let due = plan.due.into_iter().map(|candidate| candidate.provider_id);
            return (due.collect(), Duration::try_from(now.duration_since(from)).unwrap());
        }
        view.sightings = plan.sightings;
        now = now
            .checked_add(SignedDuration::try_from(plan.wake.unwrap()).unwrap())
            .unwrap();
    }
    panic!("no VM is due after four passes");
}

#[rstest]
#[case::without_machine(&[], 5)]
#[case::of_a_machine_with_another_vm(&[("m1", machine("vm-b", Some(Phase::Running)))], 0)]
#[case::of_a_failed_machine_with_another_vm(&[("m1", machine("vm-b", Some(Phase::Failed)))], 0)]
fn a_surplus_vm_is_collected_in_the_second_pass(#[case] machines: &[(&str, Machine)], #[case] minutes: u64) {
    let (due, time) = run_passes(view(&[("vm-a", "m1")], machines), at(24 * 60));
    assert_eq!(due, ["vm-a"]);
    assert_eq!(time.as_secs(), if minutes == 0 { 30 } else { minutes * 60 });
}

#[rstest]
#[case::its_own(machine("vm-a", Some(Phase::Running)))]
#[case::not_tried_yet(machine("", None))]
#[case::retried(machine("", Some(Phase::CrashLoopBackOff)))]
#[case::retried_with_an_older_record(machine("vm-b", Some(Phase::CrashLoopBackOff)))]
#[case::pending_without_a_record(machine("", Some(Phase::Pending)))]
#[case::terminating_without_a_record(machine("", Some(Phase::Terminating)))]
#[case::the_only_one_of_several(with_several(machine("", Some(Phase::CrashLoopBackOff))))]
fn a_vm_that_its_machine_may_need_is_kept(#[case] machine: Machine) {
    let plan = examine(&view(&[("vm-a", "m1")], &[("m1", machine)]), at(24 * 60), &SETTINGS());
    assert_eq!((plan.due.len(), plan.sightings.len(), plan.wake), (0, 0, None));
}

#[test]
fn one_of_several_vms_of_a_machine_without_provider_id_is_kept() {
    let several = with_several(machine("", Some(Phase::CrashLoopBackOff)));
    let (due, time) = run_passes(
        view(
            &[("vm-b", "m1"), ("vm-a", "m1"), ("vm-c", "m2")],
            &[("m1", several), ("m2", machine("vm-c", Some(Phase::Running)))],
        ),
        at(24 * 60),
    );
    assert_eq!(due, ["vm-b"]);
    assert_eq!(time.as_secs(), 30, "the wait of the machine");
}

#[test]
fn duplicates_of_a_machine_that_is_being_deleted_are_kept() {
    let mut several = with_several(machine("", Some(Phase::Terminating)));
    several.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        Timestamp::UNIX_EPOCH,
    ));
    let view = view(&[("vm-b", "m1"), ("vm-a", "m1")], &[("m1", several)]);
    assert_eq!(examine(&view, at(24 * 60), &SETTINGS()).sightings.len(), 0);
}

#[test]
fn a_young_process_collects_no_vm_without_machine_for_a_period() {
    let (due, time) = run_passes(view(&[("vm-a", "m1")], &[]), at(0));
    assert_eq!((due.len(), time), (1, Duration::from_mins(30)));
}

#[test]
fn changed_evidence_restarts_the_wait() {
    let mut view = view(&[("vm-a", "m1")], &[]);
    let first = examine(&view, at(1000), &SETTINGS());
    view.sightings = first.sightings;
    view.machines.insert(
        "m1".try_into().unwrap(),
        Known::of(&machine("vm-b", Some(Phase::Running))),
    );
    let second = examine(&view, at(1005), &SETTINGS());
    assert!(second.due.is_empty());
    assert_eq!(second.sightings["vm-a"].since, at(1005));
}

#[test]
fn a_restored_machine_clears_the_evidence() {
    let mut view = view(&[("vm-a", "m1")], &[]);
    view.sightings = examine(&view, at(1000), &SETTINGS()).sightings;
    view.machines.insert(
        "m1".try_into().unwrap(),
        Known::of(&machine("vm-a", Some(Phase::Running))),
    );
    let plan = examine(&view, at(1005), &SETTINGS());
    assert!(plan.due.is_empty() && plan.sightings.is_empty());
}

/// The view of a process that observed `count` orphans for a day.
fn of_orphans(count: usize) -> View {
    let names: Vec<(String, String)> = (0..count)
        .map(|n| (format!("vm-{n:03}"), format!("m-{n:03}")))
        .collect();
    let all: Vec<(&str, &str)> = names.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
    let mut view = view(&all, &[]);
    view.sightings = examine(&view, at(1000), &SETTINGS()).sightings;
    view
}

fn unlimited() -> Settings {
    Settings {
        maximum: usize::MAX,
        ..SETTINGS()
    }
}

#[rstest]
#[case::few(3, 1)]
#[case::many(250, 25)]
fn a_pass_takes_at_most_a_tenth_and_requests_another_pass(#[case] count: usize, #[case] expected: usize) {
    let view = of_orphans(count);
    let plan = examine(&view, at(1006), &unlimited());
    assert_eq!(plan.due.len(), expected);
    assert_eq!(plan.wake, Some(Duration::from_secs(30)));
    assert_eq!(
        plan.sightings.len(),
        count,
        "candidates that were not taken stay recorded"
    );
}

#[test]
fn a_period_collects_at_most_a_tenth_whatever_the_number_of_passes() {
    let mut view = of_orphans(30);
    let mut deletions = Vec::new();
    for minute in 1006..1100 {
        let plan = examine(&view, at(minute), &SETTINGS());
        view.sightings = plan.sightings;
        view.deletions
            .retain(|_, deletion| at(minute) < later(deletion.at, SETTINGS().period));
        for candidate in plan.due {
            view.listings[0].vms.remove(&candidate.provider_id);
            let deletion = Deletion {
                at: at(minute),
                failed: false,
            };
            view.deletions.insert(candidate.provider_id, deletion);
            deletions.push(minute - 1006);
        }
    }
    assert_eq!(deletions, [0, 0, 0, 30, 30, 60, 60, 90, 90]);
}

#[test]
fn a_pass_after_the_allowance_is_used_waits_for_the_end_of_the_period() {
    let mut view = of_orphans(3);
    let used = Deletion {
        at: at(1000),
        failed: false,
    };
    view.deletions.insert("vm-gone".try_into().unwrap(), used);
    let plan = examine(&view, at(1010), &SETTINGS());
    assert_eq!((plan.due.len(), plan.wake), (0, Some(Duration::from_mins(20))));
}

#[rstest]
#[case::the_vm_exists("vm-000", &["vm-001"])]
#[case::the_vm_is_gone("vm-gone", &[])]
fn a_failed_deletion_blocks_no_other_and_counts_if_the_vm_is_gone(#[case] failed: &str, #[case] due: &[&str]) {
    let mut view = of_orphans(3);
    let deletion = Deletion {
        at: at(1000),
        failed: true,
    };
    view.deletions.insert(failed.try_into().unwrap(), deletion);
    let plan = examine(&view, at(1010), &SETTINGS());
    let ids: Vec<&str> = plan.due.iter().map(|candidate| &*candidate.provider_id).collect();
    assert_eq!(ids, due);
}

#[test]
fn a_failed_list_hides_no_orphans_from_the_maximum() {
    let mut view = of_orphans(31);
    let listed: BTreeMap<_, _> = view.listings[0].vms.clone().into_iter().take(20).collect();
    view.listings[0].vms = listed;
    view.incomplete = true;
    let plan = examine(&view, at(1006), &SETTINGS());
    assert_eq!((plan.due.len(), plan.excess, plan.sightings.len()), (0, Some(31), 31));
    view.incomplete = false;
    let plan = examine(&view, at(1006), &SETTINGS());
    assert_eq!((plan.due.len(), plan.excess, plan.sightings.len()), (2, None, 20));
}

#[rstest]
#[case::at_the_maximum(30, 3, None)]
#[case::above(31, 0, Some(31))]
fn too_many_orphans_stop_the_collection(#[case] count: usize, #[case] due: usize, #[case] excess: Option<usize>) {
    let plan = examine(&of_orphans(count), at(1006), &SETTINGS());
    assert_eq!((plan.due.len(), plan.excess), (due, excess));
    assert_eq!(plan.sightings.len(), count);
}

#[test]
fn a_vm_that_two_classes_list_counts_once() {
    let mut view = view(&[("vm-a", "m1")], &[]);
    view.listings.push(Listing {
        class: "big".into(),
        vms: vms(&[("vm-a", "m1")]),
    });
    view.sightings = examine(&view, at(1000), &SETTINGS()).sightings;
    let plan = examine(&view, at(1006), &SETTINGS());
    assert_eq!(plan.due.len(), 1);
    assert_eq!(plan.due[0].class, "small");
}

fn candidate(view: &mut View) -> Candidate {
    view.sightings = examine(view, at(1000), &SETTINGS()).sightings;
    examine(view, at(1006), &SETTINGS()).due.remove(0)
}

#[rstest]
#[case::confirms(ServedMachine::Absent, "collect")]
#[case::the_machine_exists(ServedMachine::Present(Known::of(&machine("vm-a", Some(Phase::Running)))), "refuse")]
#[case::the_machine_has_another_vm(ServedMachine::Present(Known::of(&machine("vm-b", Some(Phase::Running)))), "refuse")]
#[case::the_machine_is_new(ServedMachine::Present(Known::of(&machine("", None))), "refuse")]
#[case::undecodable(ServedMachine::Undecodable("spec.x".into()), "refuse")]
#[case::no_answer(ServedMachine::Unreadable("refused".into()), "stop")]
fn the_state_at_the_api_server_decides(#[case] served: ServedMachine, #[case] expected: &str) {
    let candidate = candidate(&mut view(&[("vm-a", "m1")], &[]));
    let verdict = match confirm(&candidate, &served) {
        Verdict::Collect => "collect",
        Verdict::Refuse(_) => "refuse",
        Verdict::Stop(_) => "stop",
    };
    assert_eq!(verdict, expected);
}

#[test]
fn a_machine_that_names_the_vm_meanwhile_keeps_it() {
    let running = machine("vm-b", Some(Phase::Running));
    let candidate = candidate(&mut view(&[("vm-a", "m1")], &[("m1", running.clone())]));
    let verdict = |machine: &Machine| confirm(&candidate, &ServedMachine::Present(Known::of(machine)));
    assert_eq!(verdict(&running), Verdict::Collect);
    let names_the_vm = machine("vm-a", Some(Phase::Running));
    assert!(matches!(verdict(&names_the_vm), Verdict::Refuse(_)));
    let mut namesake = running;
    namesake.metadata.uid = Some("u2".into());
    assert!(
        matches!(verdict(&namesake), Verdict::Refuse(_)),
        "another Machine of that name"
    );
}
