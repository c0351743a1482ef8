//! Tables and random sequences for the cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Seed;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolumeSpec};
use mcm_api::cloud::{Code, Power};
use mcm_api::duration::GoDuration;
use mcm_api::{Machine, MachineClass};
use mcm_driver::MachineRequest;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::Config;
use crate::Delay;

mod events;
mod faults;
mod ledger;

const BOOT: Duration = Duration::from_secs(5);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
}

/// The settings of a configuration.
fn configured(yaml: &str) -> Settings {
    Config::from_yaml("test", yaml).unwrap().settings().cloud
}

fn settings(duplicate_creates: DuplicateCreates) -> Settings {
    Settings {
        duplicate_creates,
        boot_delay: Delay::Constant(BOOT),
        ..configured("")
    }
}

fn cloud() -> Cloud {
    Cloud::new(settings(DuplicateCreates::One), Seed::new(1), at(0))
}

pub(crate) fn request(machine: &str) -> MachineRequest {
    let mut class = MachineClass::default();
    class.metadata.name = Some("pool".to_owned());
    class.metadata.namespace = Some("default".to_owned());
    class.provider_spec = json!({
        "machineType": "small", "image": "linux-1", "zone": "local-1",
        "tags": {"kubernetes.io/cluster/shoot": "1", "kubernetes.io/role/node": "1"},
    });
    let mut object = Machine::default();
    object.metadata.name = Some(machine.to_owned());
    object.metadata.namespace = Some("default".to_owned());
    object.metadata.uid = Some(format!("uid-of-{machine}"));
    let secret = [("apiToken", "planted-credential"), ("userData", "planted-user-data")];
    let secret = secret
        .into_iter()
        .map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    MachineRequest {
        machine: object,
        class,
        secret: secret.collect(),
    }
}

fn machine(name: &str) -> Reference {
    Reference::Machine(name.to_owned())
}

fn states(cloud: &Cloud) -> Vec<VmState> {
    cloud.vms().map(|vm| vm.state).collect()
}

fn code<T: std::fmt::Debug>(reply: Reply<T>) -> Code {
    reply.result.map_or_else(|error| error.code, |_| Code::Ok)
}

#[test]
fn a_vm_boots_after_its_delay_whenever_time_advances() {
    let mut cloud = cloud();
    let vm = cloud.create_machine(&request("a"), at(0)).result.unwrap();
    assert_eq!(vm.node_name.as_deref(), Some("a"));
    let id = vm.provider_id.unwrap();
    assert!(id.starts_with("fakecloud:///local-1/vm-"), "{id}");
    assert_eq!(cloud.next_deadline(), Some(at(5)));
    cloud.advance(at(4));
    assert_eq!(states(&cloud), [VmState::Pending]);
    cloud.advance(at(60));
    assert_eq!(states(&cloud), [VmState::Running]);
    assert_eq!(cloud.vms().next().unwrap().changed, at(5));
    assert_eq!(cloud.next_deadline(), None);
}

#[test]
fn with_duplicate_creates_one_a_second_creation_returns_the_existing_vm() {
    let mut cloud = cloud();
    let first = cloud.create_machine(&request("a"), at(0)).result.unwrap();
    let second = cloud.create_machine(&request("a"), at(1)).result.unwrap();
    assert_eq!(first, second);
    let mut other = request("a");
    other.class.provider_spec["machineType"] = json!("large");
    let error = cloud.create_machine(&other, at(2)).result.unwrap_err();
    assert_eq!(error.code, Code::AlreadyExists);
    assert!(error.message.contains("machineType"), "{}", error.message);
}

#[test]
fn with_duplicate_creates_two_a_second_creation_creates_a_second_vm() {
    let mut cloud = Cloud::new(settings(DuplicateCreates::Two), Seed::new(1), at(0));
    let first = cloud.create_machine(&request("a"), at(0)).result.unwrap();
    let second = cloud.create_machine(&request("a"), at(1)).result.unwrap();
    assert_ne!(first.provider_id, second.provider_id);
    assert_eq!(code(cloud.machine_status(&request("a"), "", at(2))), Code::OutOfRange);
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(3))), Code::Ok);
    assert_eq!(states(&cloud), [VmState::Terminated; 2]);
    assert_eq!(code(cloud.machine_status(&request("a"), "", at(4))), Code::NotFound);
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(5))), Code::Ok);
}

#[test]
fn an_uninitialized_vm_is_named_in_the_error() {
    let settings = Settings {
        require_initialize: true,
        ..settings(DuplicateCreates::One)
    };
    let mut cloud = Cloud::new(settings, Seed::new(1), at(0));
    assert_eq!(code(cloud.initialize_machine(&request("a"), "", at(0))), Code::NotFound);
    let vm = cloud.create_machine(&request("a"), at(0)).result.unwrap();
    let error = cloud.machine_status(&request("a"), "", at(1)).result.unwrap_err();
    assert_eq!((error.code, error.vm.as_deref()), (Code::Uninitialized, Some(&vm)));
    assert_eq!(cloud.initialize_machine(&request("a"), "", at(2)).result.unwrap(), vm);
    assert_eq!(cloud.machine_status(&request("a"), "", at(3)).result.unwrap(), vm);
}

#[test]
fn only_vms_with_the_tags_of_the_class_are_listed() {
    let mut cloud = cloud();
    let vm = cloud.create_machine(&request("a"), at(0)).result.unwrap();
    let mut foreign = request("b");
    foreign.class.provider_spec["tags"] = json!({"kubernetes.io/cluster/other": "1"});
    cloud.create_machine(&foreign, at(0)).result.unwrap();
    let MachineRequest { class, secret, .. } = request("a");
    let listed = cloud.list_machines(&class, &secret, "", at(1)).result.unwrap();
    assert_eq!(
        listed,
        BTreeMap::from([(vm.provider_id.unwrap(), "a".try_into().unwrap())])
    );
    let mut untagged = class;
    untagged.provider_spec["tags"] = json!({});
    assert_eq!(
        cloud.list_machines(&untagged, &secret, "", at(1)).result.unwrap().len(),
        2
    );
    untagged.metadata.name = Some("other-pool".to_owned());
    assert_eq!(
        cloud.list_machines(&untagged, &secret, "", at(1)).result.unwrap().len(),
        0
    );
}

#[test]
fn an_update_changes_only_tags_of_the_spec() {
    let mut cloud = cloud();
    let created = request("a");
    cloud.create_machine(&created, at(0)).result.unwrap();
    let ordinals: Vec<u64> = cloud.vms.values().map(|vm| vm.ordinal).collect();
    for ordinal in ordinals {
        let vm = cloud.vms.get_mut(&ordinal).unwrap();
        vm.tags.insert("a-persons".to_owned(), "own".to_owned());
    }
    let mut changed = request("a");
    changed.class.provider_spec["tags"] = json!({"kubernetes.io/cluster/shoot": "1", "colour": "blue"});
    let last_applied = created.class.provider_spec.to_string();
    let updated = cloud.update_machine(&changed, Some(&last_applied), "", at(1));
    assert_eq!(updated.result, Ok(()));
    let tags: Vec<_> = cloud.vms.values().flat_map(|vm| vm.tags.keys().cloned()).collect();
    assert_eq!(tags, ["a-persons", "colour", "kubernetes.io/cluster/shoot"]);
    let missing = cloud.update_machine(&request("b"), None, "", at(1)).result;
    assert_eq!(missing.unwrap_err().code, Code::NotFound);
}

#[rstest]
#[case::booting(1)]
#[case::running(60)]
fn a_stopped_vm_stays_and_can_be_started(#[case] second: i64) {
    let mut cloud = cloud();
    let created = cloud.create_machine(&request("a"), at(0)).result.unwrap();
    let power = |cloud: &mut Cloud| {
        cloud
            .machine_status(&request("a"), "", at(second))
            .result
            .unwrap()
            .power
    };
    assert_eq!(power(&mut cloud), Some(Power::Running));
    for _ in 0..2 {
        let stopped = cloud.stop_machine(&request("a"), "", at(second)).result.unwrap();
        assert_eq!(stopped.provider_id, created.provider_id);
        assert_eq!(stopped.power, Some(Power::Stopped));
    }
    assert_eq!(power(&mut cloud), Some(Power::Stopped));
    let states: Vec<VmState> = cloud.vms.values().map(|vm| vm.state).collect();
    assert_eq!(states, [VmState::Stopped]);
    cloud.start_vm(&Reference::Machine("a".to_owned()), at(second)).unwrap();
    assert_eq!(power(&mut cloud), Some(Power::Running));
    let missing = cloud.stop_machine(&request("b"), "", at(second)).result;
    assert_eq!(missing.unwrap_err().code, Code::NotFound);
}

#[test]
fn only_volumes_of_this_cloud_have_ids() {
    let volume = |driver: &str| PersistentVolumeSpec {
        csi: Some(CSIPersistentVolumeSource {
            driver: driver.to_owned(),
            volume_handle: format!("{driver}/1"),
            ..CSIPersistentVolumeSource::default()
        }),
        ..PersistentVolumeSpec::default()
    };
    let specs = [
        volume(crate::CSI_DRIVER),
        volume("csi.example.com"),
        PersistentVolumeSpec::default(),
    ];
    assert_eq!(
        cloud().volume_ids(&specs, "", at(0)).result.unwrap(),
        [format!("{}/1", crate::CSI_DRIVER)]
    );
}

#[rstest]
#[case::missing(None, Code::InvalidArgument)]
#[case::empty(Some(""), Code::InvalidArgument)]
#[case::expired(Some("expired"), Code::Unauthenticated)]
#[case::good(Some("x"), Code::Ok)]
fn credentials_are_checked(#[case] token: Option<&str>, #[case] expected: Code) {
    let mut request = request("a");
    request.secret.remove("apiToken");
    if let Some(token) = token {
        request
            .secret
            .insert("apiToken".to_owned(), ByteString(token.as_bytes().to_vec()));
    }
    assert_eq!(code(cloud().create_machine(&request, at(0))), expected);
}

#[test]
fn an_error_after_the_effect_leaves_a_vm_behind() {
    let mut cloud = cloud();
    let rule = FaultRule::of("before", CloudCall::CreateMachine)
        .code(Code::Internal)
        .times(1);
    cloud.add_fault(rule.clone(), at(0)).unwrap();
    cloud
        .add_fault(
            FaultRule {
                name: "after".to_owned(),
                ..rule.after_commit()
            },
            at(0),
        )
        .unwrap();
    assert_eq!(code(cloud.create_machine(&request("a"), at(1))), Code::Internal);
    assert_eq!(cloud.live_count(), 0);
    assert_eq!(code(cloud.create_machine(&request("a"), at(2))), Code::Internal);
    assert_eq!(cloud.live_count(), 1);
    assert_eq!(code(cloud.create_machine(&request("a"), at(3))), Code::Ok);
    assert_eq!(cloud.live_count(), 1);
    let faults = cloud.log().after(0).unwrap().filter_map(|record| record.fault.clone());
    assert_eq!(faults.collect::<Vec<_>>(), ["before", "after"]);
}

#[test]
fn a_slow_call_commits_at_once_and_replies_late() {
    let settings = Settings {
        call_latency: Duration::from_millis(100),
        ..settings(DuplicateCreates::One)
    };
    let mut cloud = Cloud::new(settings, Seed::new(1), at(0));
    let latency = Delay::Constant(Duration::from_secs(3));
    cloud.add_fault(FaultRule::new("slow").latency(latency), at(0)).unwrap();
    let reply = cloud.create_machine(&request("a"), at(0));
    assert_eq!(reply.delay, Duration::from_millis(3100));
    reply.result.unwrap();
    assert_eq!(cloud.live_count(), 1);
}

#[test]
fn an_injected_uninitialized_names_the_vm() {
    let mut cloud = cloud();
    let vm = cloud.create_machine(&request("a"), at(0)).result.unwrap();
    cloud
        .add_fault(
            FaultRule::of("u", CloudCall::GetMachineStatus).code(Code::Uninitialized),
            at(0),
        )
        .unwrap();
    let error = cloud.machine_status(&request("a"), "", at(1)).result.unwrap_err();
    assert_eq!(error.vm.as_deref(), Some(&vm));
}

#[test]
fn a_killed_vm_still_exists_and_restarts_with_a_new_boot_id() {
    let mut cloud = cloud();
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    cloud.advance(at(5));
    let first = cloud.vms().next().unwrap().boot_id.clone();
    assert_eq!(cloud.kill_vm(&machine("a"), at(6)).unwrap().state, VmState::Stopped);
    assert_eq!(code(cloud.machine_status(&request("a"), "", at(7))), Code::Ok);
    let second = cloud.start_vm(&machine("default/a"), at(8)).unwrap().boot_id.clone();
    let third = cloud.reboot_vm(&machine("a"), at(9)).unwrap().boot_id.clone();
    assert_eq!(BTreeSet::from([first, second, third]).len(), 3);
    assert_eq!(
        cloud.delete_vm(&machine("a"), at(10)).unwrap().state,
        VmState::Terminated
    );
    assert_eq!(code(cloud.machine_status(&request("a"), "", at(11))), Code::NotFound);
}

#[test]
fn a_command_in_the_wrong_state_names_the_required_states() {
    let mut cloud = cloud();
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    let error = cloud.start_vm(&machine("a"), at(1)).unwrap_err().to_string();
    assert!(error.contains("is pending, and must be stopped"), "{error}");
    let error = cloud.kill_vm(&machine("b"), at(1)).unwrap_err().to_string();
    assert_eq!(error, "there is no VM of machine \"b\"");
}

#[test]
fn a_pending_vm_that_dies_does_not_boot() {
    let mut cloud = cloud();
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    cloud.kill_vm(&machine("a"), at(1)).unwrap();
    cloud.advance(at(100));
    assert_eq!(states(&cloud), [VmState::Stopped]);
}

#[test]
fn a_held_vm_waits_for_a_step_or_the_release() {
    let mut cloud = cloud();
    cloud.hold("a*", at(0)).unwrap();
    for name in ["a1", "a2", "b"] {
        cloud.create_machine(&request(name), at(0)).result.unwrap();
    }
    cloud.advance(at(60));
    assert_eq!(states(&cloud), [VmState::Pending, VmState::Pending, VmState::Running]);
    cloud.step_vm(&machine("a1"), at(61)).unwrap();
    assert_eq!(states(&cloud), [VmState::Running, VmState::Pending, VmState::Running]);
    cloud.release("a*", at(62)).unwrap();
    assert_eq!(states(&cloud), [VmState::Running; 3]);
    assert_eq!(cloud.vms().nth(1).unwrap().changed, at(62));
    assert_eq!(
        cloud.release("a*", at(63)).unwrap_err(),
        CommandError::NoHold("a*".to_owned())
    );
}

#[test]
fn a_hold_also_applies_to_pending_vms_and_deletions() {
    let settings = Settings {
        termination_delay: BOOT,
        ..settings(DuplicateCreates::One)
    };
    let mut cloud = Cloud::new(settings, Seed::new(1), at(0));
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    cloud.hold("a", at(1)).unwrap();
    cloud.advance(at(60));
    assert_eq!(states(&cloud), [VmState::Pending]);
    cloud.delete_machine(&request("a"), "", at(61)).result.unwrap();
    cloud.advance(at(120));
    assert_eq!(states(&cloud), [VmState::Stopping]);
    let id = cloud.vms().next().unwrap().id.clone();
    cloud.step_vm(&Reference::Id(id), at(121)).unwrap();
    assert_eq!(states(&cloud), [VmState::Terminated]);
}

#[test]
fn user_data_and_credentials_stay_out_of_the_log_and_of_debug_output() {
    let mut cloud = cloud();
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    cloud.advance(at(10));
    cloud.kill_vm(&machine("a"), at(11)).unwrap();
    let shown = format!("{cloud:?}");
    assert!(shown.contains("KillVm"));
    assert!(!shown.contains("planted"), "{shown}");
}

#[test]
fn one_machines_boot_delay_does_not_depend_on_the_others() {
    let settings = Settings {
        boot_delay: "1s-60s".parse().unwrap(),
        ..settings(DuplicateCreates::One)
    };
    let boot_of_b = |before: &[&str]| {
        let mut cloud = Cloud::new(settings.clone(), Seed::new(4), at(0));
        for name in before {
            cloud.create_machine(&request(name), at(0)).result.unwrap();
        }
        cloud.create_machine(&request("b"), at(0)).result.unwrap();
        cloud.advance(at(100));
        let vm = cloud.vms().last().unwrap();
        (vm.changed, vm.id.clone())
    };
    assert_eq!(boot_of_b(&[]), boot_of_b(&["a", "c"]));
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Delete(u8),
    Kill(u8),
    Start(u8),
    Reboot(u8),
    DeleteBehindBack(u8),
    Hold(u8),
    Release(u8),
    Progress(u8),
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..3u8;
    prop_oneof![
        4 => name.clone().prop_map(Step::Create),
        2 => name.clone().prop_map(Step::Delete),
        1 => name.clone().prop_map(Step::Kill),
        1 => name.clone().prop_map(Step::Start),
        1 => name.clone().prop_map(Step::Reboot),
        1 => name.clone().prop_map(Step::DeleteBehindBack),
        1 => name.clone().prop_map(Step::Hold),
        1 => name.clone().prop_map(Step::Release),
        1 => name.prop_map(Step::Progress),
        2 => (0..8u8).prop_map(Step::Wait),
    ]
}

fn apply(cloud: &mut Cloud, step: &Step, now: &mut Timestamp) {
    let name = |index: &u8| format!("machine-{index}");
    match step {
        Step::Create(index) => drop(cloud.create_machine(&request(&name(index)), *now)),
        Step::Delete(index) => drop(cloud.delete_machine(&request(&name(index)), "", *now)),
        Step::Kill(index) => drop(cloud.kill_vm(&machine(&name(index)), *now).map(|_| ())),
        Step::Start(index) => drop(cloud.start_vm(&machine(&name(index)), *now).map(|_| ())),
        Step::Reboot(index) => drop(cloud.reboot_vm(&machine(&name(index)), *now).map(|_| ())),
        Step::DeleteBehindBack(index) => drop(cloud.delete_vm(&machine(&name(index)), *now).map(|_| ())),
        Step::Hold(index) => drop(cloud.hold(&name(index), *now).map(|_| ())),
        Step::Release(index) => drop(cloud.release(&name(index), *now).map(|_| ())),
        Step::Progress(index) => drop(cloud.step_vm(&machine(&name(index)), *now).map(|_| ())),
        Step::Wait(seconds) => {
            *now += SignedDuration::from_secs(i64::from(*seconds));
            cloud.advance(*now);
        }
    }
}

fn check(cloud: &Cloud, at_most_one: bool, ended: &mut BTreeSet<String>, ids: &mut BTreeSet<String>) {
    let mut live: BTreeMap<String, usize> = BTreeMap::new();
    for vm in cloud.vms() {
        ids.insert(vm.provider_id.clone());
        if vm.state.is_live() {
            *live.entry(vm.owner.key()).or_default() += 1;
        }
        let is_terminated = vm.state == VmState::Terminated;
        assert!(is_terminated || !ended.contains(&vm.id), "{} came back", vm.id);
        if is_terminated {
            ended.insert(vm.id.clone());
        }
        assert!(!(cloud.is_held(vm) && cloud.deadlines.iter().any(|(_, ordinal)| *ordinal == vm.ordinal)));
        assert_eq!(vm.boot_id.is_empty(), vm.boots == 0);
    }
    assert_eq!(ids.len(), cloud.vms().count(), "provider ids are unique");
    assert!(!at_most_one || live.values().all(|count| *count == 1), "{live:?}");
    assert_eq!(cloud.live_count(), live.values().sum::<usize>());
    let times: Vec<_> = cloud.log().after(0).unwrap().map(|record| record.time).collect();
    assert!(times.is_sorted(), "the log's times never go back");
}

proptest! {
    #[test]
    fn random_sequences_keep_the_ledger_consistent(
        steps in proptest::collection::vec(step(), 1..60),
        two in any::<bool>(),
        termination in 0..4u64,
    ) {
        let duplicates = if two { DuplicateCreates::Two } else { DuplicateCreates::One };
        let settings = Settings { termination_delay: Duration::from_secs(termination), ..settings(duplicates) };
        let mut cloud = Cloud::new(settings, Seed::new(9), at(0));
        let mut now = at(0);
        let (mut ended, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for step in &steps {
            apply(&mut cloud, step, &mut now);
            check(&cloud, !two, &mut ended, &mut ids);
        }
        for index in 0..3 {
            apply(&mut cloud, &Step::Release(index), &mut now);
            apply(&mut cloud, &Step::Delete(index), &mut now);
        }
        cloud.advance(now + SignedDuration::from_hours(1));
        prop_assert!(cloud.vms().all(|vm| vm.state == VmState::Terminated));
        prop_assert_eq!(cloud.next_deadline(), None);
    }
}

#[test]
fn a_delayed_creation_takes_effect_even_if_its_client_gave_up() {
    let mut cloud = cloud();
    cloud
        .add_fault(
            FaultRule::of("slow", CloudCall::CreateMachine)
                .times(1)
                .effect_delay(GoDuration(Duration::from_secs(300))),
            at(0),
        )
        .unwrap();
    let Creation::Later(ticket) = cloud.begin_creation(&request("a"), "mcm-0", at(1)) else {
        panic!("it is done at once");
    };
    assert_eq!(ticket.due, at(301));
    assert_eq!(cloud.next_deadline(), Some(at(301)));
    assert_eq!(code(cloud.machine_status(&request("a"), "", at(300))), Code::NotFound);
    assert!(cloud.end_creation(ticket, at(300)).is_none());
    // No client waits; a second call finds the VM of the first.
    assert_eq!(code(cloud.machine_status(&request("a"), "", at(302))), Code::Ok);
    let call = cloud
        .log()
        .after(0)
        .unwrap()
        .find(|record| record.operation == "CreateMachine");
    assert_eq!(
        call.map(|call| (call.client.as_str(), call.fault.as_deref())),
        Some(("mcm-0", Some("slow")))
    );
    assert_eq!(code(cloud.end_creation(ticket, at(303)).unwrap()), Code::Ok);
    assert!(
        cloud.end_creation(ticket, at(303)).is_none(),
        "the result is returned once"
    );
}
