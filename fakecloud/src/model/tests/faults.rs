//! The effects of fault rules on calls.

use mcm_api::cloud::VmIdentity;

use super::*;
use crate::model::{CommonError, Partial, StorageReply};

fn add_rule(cloud: &mut Cloud, yaml: &str) {
    let rule: FaultRule = serde_saphyr::from_str(yaml).unwrap();
    cloud.add_fault(rule, at(0)).unwrap();
}

fn created(cloud: &mut Cloud, name: &str, now: i64) -> Result<VmIdentity, Code> {
    cloud
        .create_machine(&request(name), at(now))
        .result
        .map_err(|error| error.code)
}

fn status(cloud: &mut Cloud, name: &str, now: i64) -> Code {
    code(cloud.machine_status(&request(name), "", at(now)))
}

fn listed(cloud: &mut Cloud, now: i64) -> usize {
    let of = request("a");
    cloud
        .list_machines(&of.class, &of.secret, "", at(now))
        .result
        .unwrap()
        .len()
}

#[rstest]
#[case("quota", CommonError::Quota)]
#[case("capacity", CommonError::Capacity)]
#[case("throttled", CommonError::Throttled)]
#[case("credentialsExpired", CommonError::CredentialsExpired)]
#[case("credentialsWrong", CommonError::CredentialsWrong)]
#[case("denied", CommonError::Denied)]
#[case("outage", CommonError::Outage)]
fn a_named_error_has_its_code_and_message(#[case] word: &str, #[case] expected: CommonError) {
    let mut cloud = cloud();
    add_rule(
        &mut cloud,
        &format!("{{match: {{call: createMachine}}, action: {{error: {word}}}}}"),
    );
    let error = cloud.create_machine(&request("a"), at(1)).result.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (expected.code(), expected.text()));
    assert_eq!(cloud.live_count(), 0);
}

#[rstest]
fn every_machine_code_can_be_returned(
    #[values(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)] number: i32,
) {
    let expected = Code::from_number(number).unwrap();
    let mut cloud = cloud();
    cloud.add_fault(FaultRule::new("a").code(expected), at(0)).unwrap();
    assert_eq!(created(&mut cloud, "a", 1), Err(expected));
    assert_eq!(cloud.faults().list()[0].hits, 1);
}

#[test]
fn a_lost_reply_leaves_the_vm_behind() {
    let mut cloud = cloud();
    add_rule(
        &mut cloud,
        "{match: {call: createMachine, times: 1}, action: {lostReply: true}}",
    );
    let error = cloud.create_machine(&request("a"), at(1)).result.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(
        error.message.contains("the connection ended before the reply"),
        "{}",
        error.message
    );
    assert_eq!(status(&mut cloud, "a", 2), Code::Ok);
    assert_eq!(cloud.live_count(), 1);
}

#[test]
fn the_latency_of_a_reply_is_drawn_for_each_call() {
    let mut cloud = cloud();
    add_rule(&mut cloud, "{latency: 1s-3s}");
    let mut drawn = BTreeSet::new();
    for second in 0..50 {
        let delay = cloud.machine_status(&request("a"), "", at(second)).delay;
        assert!(
            (Duration::from_secs(1)..=Duration::from_secs(3)).contains(&delay),
            "{delay:?}"
        );
        drawn.insert(delay);
    }
    assert!(drawn.len() > 40);
}

#[test]
fn a_throttle_rule_limits_the_rate_of_calls() {
    let mut cloud = cloud();
    add_rule(
        &mut cloud,
        "{match: {throttle: {perSecond: 1, burst: 3}}, action: {error: throttled}}",
    );
    let refused = (0..10)
        .filter(|_| created(&mut cloud, "a", 1) == Err(Code::Unavailable))
        .count();
    assert_eq!(refused, 7);
    assert!(created(&mut cloud, "a", 2).is_ok());
}

#[rstest]
#[case(Partial::Nics, 0, 1)]
#[case(Partial::Disks, 1, 1)]
fn a_partial_creation_leaves_parts_that_the_next_attempt_uses(
    #[case] partial: Partial,
    #[case] disks: usize,
    #[case] nics: usize,
) {
    let mut cloud = cloud();
    let rule = FaultRule::of("a", CloudCall::CreateMachine)
        .code(Code::ResourceExhausted)
        .partial(partial)
        .times(2);
    cloud.add_fault(rule, at(0)).unwrap();
    assert_eq!(created(&mut cloud, "a", 1), Err(Code::ResourceExhausted));
    assert_eq!(created(&mut cloud, "a", 2), Err(Code::ResourceExhausted));
    assert_eq!(
        (cloud.disks().count(), cloud.nics().count(), cloud.live_count()),
        (disks, nics, 0)
    );
    assert_eq!(status(&mut cloud, "a", 3), Code::NotFound);
    created(&mut cloud, "a", 4).unwrap();
    assert_eq!((cloud.disks().count(), cloud.nics().count()), (1, 1));
    assert!(cloud.disks().all(|disk| disk.vm.is_some()) && cloud.nics().all(|nic| nic.vm.is_some()));
}

#[test]
fn a_driver_that_reuses_no_parts_leaks_them_at_every_attempt() {
    let mut cloud = Cloud::new(settings(DuplicateCreates::Two), Seed::new(1), at(0));
    add_rule(
        &mut cloud,
        "{match: {call: createMachine, times: 3}, action: {code: Internal, partial: nics}}",
    );
    for second in 1..4 {
        created(&mut cloud, "a", second).unwrap_err();
    }
    assert_eq!(cloud.nics().count(), 3);
    created(&mut cloud, "a", 4).unwrap();
    assert_eq!(
        (
            cloud.nics().count(),
            cloud.nics().filter(|nic| nic.vm.is_none()).count()
        ),
        (4, 3)
    );
    // The deletion also removes parts that were left behind for the machine.
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(5))), Code::Ok);
    assert_eq!((cloud.nics().count(), cloud.disks().count()), (0, 0));
}

#[test]
fn a_partial_deletion_leaves_disks_and_interfaces_until_the_next_attempt() {
    let mut cloud = cloud();
    created(&mut cloud, "a", 0).unwrap();
    add_rule(
        &mut cloud,
        "{match: {call: deleteMachine, times: 1}, action: {code: Internal, partial: vm}}",
    );
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(1))), Code::Internal);
    assert_eq!(states(&cloud), [VmState::Terminated]);
    assert_eq!((cloud.disks().count(), cloud.nics().count()), (1, 1));
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(2))), Code::Ok);
    assert_eq!((cloud.disks().count(), cloud.nics().count()), (0, 0));
}

#[test]
fn a_partial_initialization_changes_one_interface_and_the_vm_stays_uninitialized() {
    let settings = Settings {
        require_initialize: true,
        ..settings(DuplicateCreates::One)
    };
    let mut cloud = Cloud::new(settings, Seed::new(1), at(0));
    let mut wanted = request("a");
    wanted.class.provider_spec["nics"] = json!([
        {"name": "eth0", "sourceDestinationCheck": false}, {"name": "eth1", "ipv6": true},
    ]);
    cloud.create_machine(&wanted, at(0)).result.unwrap();
    let flags = |cloud: &Cloud| -> BTreeMap<String, (bool, bool)> {
        let of = |nic: &Nic| (nic.name.clone(), (nic.flags.source_destination_check, nic.flags.ipv6));
        cloud.nics().map(of).collect()
    };
    let expect = |first, second| BTreeMap::from([("eth0".to_owned(), first), ("eth1".to_owned(), second)]);
    assert_eq!(flags(&cloud), expect((true, false), (true, false)));
    add_rule(
        &mut cloud,
        "{match: {call: initializeMachine, times: 1}, action: {code: Internal, partial: nics}}",
    );
    assert_eq!(code(cloud.initialize_machine(&wanted, "", at(1))), Code::Internal);
    assert_eq!(flags(&cloud), expect((false, false), (true, false)));
    assert_eq!(status(&mut cloud, "a", 2), Code::Uninitialized);
    assert_eq!(code(cloud.initialize_machine(&wanted, "", at(3))), Code::Ok);
    assert_eq!(flags(&cloud), expect((false, false), (true, true)));
    assert_eq!(status(&mut cloud, "a", 4), Code::Ok);
}

#[test]
fn a_stale_reply_shows_the_ledger_of_an_earlier_time() {
    let mut cloud = cloud();
    add_rule(
        &mut cloud,
        "{match: {call: getMachineStatus}, action: {stale: {by: 30s}}}",
    );
    add_rule(&mut cloud, "{match: {call: listMachines}, action: {stale: {by: 30s}}}");
    created(&mut cloud, "a", 100).unwrap();
    assert_eq!(
        (status(&mut cloud, "a", 129), listed(&mut cloud, 129)),
        (Code::NotFound, 0)
    );
    assert_eq!((status(&mut cloud, "a", 130), listed(&mut cloud, 130)), (Code::Ok, 1));
    cloud.delete_machine(&request("a"), "", at(200)).result.unwrap();
    assert_eq!((status(&mut cloud, "a", 229), listed(&mut cloud, 229)), (Code::Ok, 1));
    assert_eq!(
        (status(&mut cloud, "a", 230), listed(&mut cloud, 230)),
        (Code::NotFound, 0)
    );
}

#[test]
fn a_stale_reply_shows_the_ledger_before_earlier_calls() {
    let mut cloud = cloud();
    add_rule(
        &mut cloud,
        "{match: {call: getMachineStatus}, action: {stale: {calls: 2}}}",
    );
    created(&mut cloud, "a", 10).unwrap();
    let seen: Vec<Code> = (11..15).map(|second| status(&mut cloud, "a", second)).collect();
    assert_eq!(seen, [Code::NotFound, Code::NotFound, Code::Ok, Code::Ok]);
}

#[test]
fn a_slow_deletion_ends_after_its_delay_and_a_stuck_one_never_ends() {
    let mut cloud = cloud();
    for name in ["slow", "stuck"] {
        created(&mut cloud, name, 0).unwrap();
    }
    add_rule(
        &mut cloud,
        "{match: {call: deleteMachine, machine: slow}, action: {effectDelay: 10m}}",
    );
    add_rule(
        &mut cloud,
        "{match: {call: deleteMachine, machine: stuck}, action: {stuck: true}}",
    );
    for name in ["slow", "stuck"] {
        assert_eq!(code(cloud.delete_machine(&request(name), "", at(60))), Code::Ok);
        assert_eq!(status(&mut cloud, name, 61), Code::NotFound);
    }
    cloud.advance(at(60 + 599));
    assert_eq!(states(&cloud), [VmState::Stopping, VmState::Stopping]);
    cloud.advance(at(60 + 600));
    assert_eq!(states(&cloud), [VmState::Terminated, VmState::Stopping]);
    cloud.advance(at(100_000));
    assert_eq!(states(&cloud), [VmState::Terminated, VmState::Stopping]);
    let id = cloud.vms().last().unwrap().id.clone();
    cloud.step_vm(&Reference::Id(id), at(100_001)).unwrap();
    assert_eq!(states(&cloud), [VmState::Terminated, VmState::Terminated]);
    assert_eq!(cloud.nics().count(), 0);
}

#[test]
fn a_stuck_creation_creates_a_vm_that_never_boots() {
    let mut cloud = cloud();
    add_rule(&mut cloud, "{match: {call: createMachine}, action: {stuck: true}}");
    created(&mut cloud, "a", 0).unwrap();
    cloud.advance(at(100_000));
    assert_eq!(states(&cloud), [VmState::Pending]);
    cloud.step_vm(&machine("a"), at(100_001)).unwrap();
    assert_eq!(states(&cloud), [VmState::Running]);
}

#[test]
fn a_lying_cloud_reports_success_without_an_effect() {
    let mut cloud = cloud();
    add_rule(
        &mut cloud,
        "{match: {call: createMachine, machine: never}, action: {lie: true}}",
    );
    created(&mut cloud, "never", 0).unwrap();
    assert_eq!(
        (cloud.live_count(), status(&mut cloud, "never", 1)),
        (0, Code::NotFound)
    );
    created(&mut cloud, "a", 2).unwrap();
    for operation in ["deleteMachine", "getMachineStatus", "listMachines"] {
        add_rule(
            &mut cloud,
            &format!("{{match: {{call: {operation}}}, action: {{lie: true}}}}"),
        );
    }
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(3))), Code::Ok);
    assert_eq!((status(&mut cloud, "a", 4), listed(&mut cloud, 4)), (Code::NotFound, 0));
    assert_eq!(cloud.live_count(), 1);
}

#[test]
fn a_reply_may_lack_the_node_name() {
    let mut cloud = cloud();
    add_rule(
        &mut cloud,
        "{match: {call: createMachine, times: 1}, action: {nameless: true}}",
    );
    let made = created(&mut cloud, "a", 0).unwrap();
    assert_eq!((made.node_name, made.provider_id.is_some()), (None, true));
    add_rule(
        &mut cloud,
        "{match: {call: getMachineStatus, times: 1}, action: {nameless: true}}",
    );
    let mut looked = |seconds| {
        cloud
            .machine_status(&request("a"), "", at(seconds))
            .result
            .unwrap()
            .node_name
    };
    assert_eq!([looked(1), looked(2)], [None, Some("a".try_into().unwrap())]);
}

#[test]
fn a_rule_hits_only_matching_clients() {
    let mut cloud = cloud();
    add_rule(&mut cloud, "{caller: mcm-*, code: PermissionDenied}");
    assert_eq!(
        code(cloud.machine_status(&request("a"), "mcm-0", at(1))),
        Code::PermissionDenied
    );
    assert_eq!(
        code(cloud.machine_status(&request("a"), "operator", at(1))),
        Code::NotFound
    );
    let of = request("a");
    let listed = cloud.list_machines(&of.class, &of.secret, "mcm-1", at(1));
    assert_eq!(code(listed), Code::PermissionDenied);
    let last = cloud.log().after(0).unwrap().last().unwrap();
    assert_eq!(
        (last.client.as_str(), last.fault.as_deref()),
        ("mcm-1", Some("fault-1"))
    );
}

#[test]
fn attaching_and_detaching_volumes_can_fail() {
    let mut cloud = cloud();
    created(&mut cloud, "a", 0).unwrap();
    cloud.create_volume("v", "local-1", "1Gi", at(0)).unwrap();
    add_rule(
        &mut cloud,
        "{match: {call: attachVolume, times: 1}, action: {code: Internal}}",
    );
    add_rule(
        &mut cloud,
        "{match: {call: detachVolume, times: 1}, action: {code: Aborted, at: afterCommit}}",
    );
    assert_eq!(
        cloud.attach_volume("v", &machine("a"), at(1)).unwrap_err().code,
        Code::Internal
    );
    assert_eq!(cloud.volumes().next().unwrap().vm, None);
    cloud.attach_volume("v", &machine("a"), at(2)).unwrap();
    assert_eq!(cloud.detach_volume("v", at(3)).unwrap_err().code, Code::Aborted);
    assert_eq!(cloud.volumes().next().unwrap().vm, None);
}

#[test]
fn a_delayed_attachment_takes_effect_later_on_matching_machines() {
    let mut cloud = cloud();
    created(&mut cloud, "slow", 0).unwrap();
    created(&mut cloud, "fast", 0).unwrap();
    for id in ["v1", "v2", "v3", "v4"] {
        cloud.create_volume(id, "local-1", "1Gi", at(0)).unwrap();
    }
    add_rule(
        &mut cloud,
        "{match: {call: attachVolume, machine: slow}, action: {effectDelay: 30s}}",
    );
    let attached = |cloud: &Cloud| -> Vec<String> {
        let attached = cloud.volumes().filter(|volume| volume.vm.is_some());
        attached.map(|volume| volume.id.clone()).collect()
    };
    assert_eq!(cloud.attach_volume("v1", &machine("slow"), at(10)).unwrap().vm, None);
    cloud.attach_volume("v2", &machine("fast"), at(10)).unwrap();
    // A detachment before it takes effect cancels it.
    cloud.attach_volume("v3", &machine("slow"), at(10)).unwrap();
    cloud.detach_volume("v3", at(11)).unwrap();
    // What cannot be attached is refused at once, also if only the other attachment is pending.
    let refused = cloud.attach_volume("v2", &machine("slow"), at(11)).unwrap_err();
    assert_eq!(refused.code, Code::FailedPrecondition);
    let refused = cloud.attach_volume("v1", &machine("fast"), at(11)).unwrap_err();
    assert!(
        refused.message.contains("is being attached to VM"),
        "{}",
        refused.message
    );
    // A volume that is deleted meanwhile and created again is not attached by itself.
    cloud.create_volume("v5", "local-1", "1Gi", at(10)).unwrap();
    cloud.attach_volume("v5", &machine("slow"), at(11)).unwrap();
    cloud.delete_volume("v5", at(12)).unwrap();
    cloud.create_volume("v5", "local-1", "1Gi", at(12)).unwrap();
    cloud.attach_volume("v4", &machine("slow"), at(12)).unwrap();
    cloud.advance(at(39));
    assert_eq!(attached(&cloud), ["v2"]);
    cloud.advance(at(40));
    assert_eq!(attached(&cloud), ["v1", "v2"]);
    // Its VM is deleted before it takes effect.
    assert_eq!(code(cloud.delete_machine(&request("slow"), "", at(41))), Code::Ok);
    cloud.advance(at(42));
    assert_eq!(attached(&cloud), ["v2"]);
    assert_eq!(cloud.faults().list()[0].hits, 5);
    let last = cloud.log().after(0).unwrap().last().unwrap();
    assert_eq!(
        (&*last.operation, last.code),
        ("AttachVolume", Some(Code::FailedPrecondition))
    );
}

#[test]
fn a_partial_update_sets_tags_and_not_flags() {
    let mut cloud = cloud();
    created(&mut cloud, "a", 0).unwrap();
    add_rule(
        &mut cloud,
        "{match: {call: updateMachine, times: 1}, action: {code: Internal, partial: tags}}",
    );
    let update = VmUpdate {
        set_tags: BTreeMap::from([("owner".to_owned(), "me".to_owned())]),
        nics: BTreeMap::from([(
            "primary".to_owned(),
            NicFlags {
                source_destination_check: false,
                ipv6: true,
            },
        )]),
        ..VmUpdate::default()
    };
    assert_eq!(
        cloud.update_vm(&machine("a"), &update, at(1)).unwrap_err().code,
        Code::Internal
    );
    let shown = |cloud: &Cloud| {
        let vm = cloud.vms().next().unwrap();
        (vm.tags.contains_key("owner"), cloud.nics().next().unwrap().flags.ipv6)
    };
    assert_eq!(shown(&cloud), (true, false));
    cloud.update_vm(&machine("a"), &update, at(2)).unwrap();
    assert_eq!(shown(&cloud), (true, true));
}

#[test]
fn rules_also_hit_the_storage_of_a_cluster() {
    let mut cloud = cloud();
    add_rule(
        &mut cloud,
        "{match: {call: detachVolume, machine: node-1, times: 2}, action: {code: Internal}}",
    );
    let mut detaches =
        |node| cloud.storage_reply(CloudCall::DetachVolume, "pv-1", node, "local-1", at(1)) == StorageReply::Done;
    assert_eq!(
        [
            detaches("node-2"),
            detaches("node-1"),
            detaches("node-1"),
            detaches("node-1")
        ],
        [true, false, false, true]
    );
    let attached = cloud.storage_reply(CloudCall::AttachVolume, "pv-1", "node-1", "local-1", at(2));
    assert_eq!(attached, StorageReply::Done);
    cloud.note_storage("CreateVolume", "pv-2", at(3));
    let storage = ["AttachVolume", "DetachVolume", "CreateVolume"];
    let logged: Vec<_> = cloud
        .log()
        .after(0)
        .unwrap()
        .filter(|record| storage.contains(&&*record.operation))
        .map(|record| (record.operation.to_string(), record.machine.clone(), record.code))
        .collect();
    let detached = |node: &str, code| ("DetachVolume".to_owned(), node.to_owned(), Some(code));
    assert_eq!(
        logged,
        [
            detached("node-2", Code::Ok),
            detached("node-1", Code::Internal),
            detached("node-1", Code::Internal),
            detached("node-1", Code::Ok),
            ("AttachVolume".to_owned(), "node-1".to_owned(), Some(Code::Ok)),
            ("CreateVolume".to_owned(), String::new(), None),
        ]
    );
}
