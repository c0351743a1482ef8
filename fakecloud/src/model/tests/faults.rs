//! What each effect of a fault rule makes of a call.

use mcm_api::cloud::VmIdentity;

use super::*;
use crate::model::{Partial, Stale, Throttle, Trouble};

fn struck(cloud: &mut Cloud, yaml: &str) {
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
#[case("quota", Trouble::Quota)]
#[case("capacity", Trouble::Capacity)]
#[case("throttled", Trouble::Throttled)]
#[case("credentialsExpired", Trouble::CredentialsExpired)]
#[case("credentialsWrong", Trouble::CredentialsWrong)]
#[case("denied", Trouble::Denied)]
#[case("outage", Trouble::Outage)]
fn a_common_trouble_has_its_code_and_its_text(#[case] word: &str, #[case] trouble: Trouble) {
    let mut cloud = cloud();
    struck(&mut cloud, &format!("{{operation: create, error: {word}}}"));
    let error = cloud.create_machine(&request("a"), at(1)).result.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (trouble.code(), trouble.text()));
    assert_eq!(cloud.live_count(), 0);
}

#[rstest]
fn every_machine_code_can_be_answered(
    #[values(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)] number: i32,
) {
    let expected = Code::from_number(number).unwrap();
    let mut cloud = cloud();
    cloud.add_fault(FaultRule::new("a", None, expected), at(0)).unwrap();
    assert_eq!(created(&mut cloud, "a", 1), Err(expected));
    assert_eq!(cloud.faults().list()[0].hits, 1);
}

#[test]
fn a_reply_that_is_lost_leaves_the_vm() {
    let mut cloud = cloud();
    struck(&mut cloud, "{operation: create, times: 1, lostReply: true}");
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
    struck(&mut cloud, "{latency: 1s-3s}");
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
fn throttled_calls_come_through_as_often_as_the_rule_says() {
    let mut cloud = cloud();
    let rule = FaultRule {
        throttle: Some(Throttle {
            per_second: 1.0,
            burst: 3,
        }),
        error: Some(Trouble::Throttled),
        ..FaultRule::new("a", None, Code::Ok)
    };
    cloud.add_fault(rule, at(0)).unwrap();
    let refused = (0..10)
        .filter(|_| created(&mut cloud, "a", 1) == Err(Code::Unavailable))
        .count();
    assert_eq!(refused, 7);
    assert!(created(&mut cloud, "a", 2).is_ok());
}

#[rstest]
#[case(Partial::Nics, 0, 1)]
#[case(Partial::Disks, 1, 1)]
fn a_partial_creation_leaves_parts_that_the_next_one_uses(
    #[case] partial: Partial,
    #[case] disks: usize,
    #[case] nics: usize,
) {
    let mut cloud = cloud();
    let rule = FaultRule {
        partial: Some(partial),
        times: Some(2),
        ..FaultRule::new("a", Some(Operation::Create), Code::ResourceExhausted)
    };
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
fn a_driver_that_reuses_nothing_leaks_parts_at_every_try() {
    let mut cloud = Cloud::new(settings(DuplicateCreates::Two), Seed::new(1), at(0));
    struck(
        &mut cloud,
        "{operation: create, code: Internal, partial: nics, times: 3}",
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
    // What was left behind for the machine goes with its deletion.
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(5))), Code::Ok);
    assert_eq!((cloud.nics().count(), cloud.disks().count()), (0, 0));
}

#[test]
fn a_partial_deletion_leaves_disks_and_interfaces_until_the_next_one() {
    let mut cloud = cloud();
    created(&mut cloud, "a", 0).unwrap();
    struck(&mut cloud, "{operation: delete, code: Internal, partial: vm, times: 1}");
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(1))), Code::Internal);
    assert_eq!(states(&cloud), [VmState::Terminated]);
    assert_eq!((cloud.disks().count(), cloud.nics().count()), (1, 1));
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(2))), Code::Ok);
    assert_eq!((cloud.disks().count(), cloud.nics().count()), (0, 0));
}

#[test]
fn a_partial_initialization_switches_one_interface_and_the_vm_stays_uninitialized() {
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
    struck(
        &mut cloud,
        "{operation: initialize, code: Internal, partial: nics, times: 1}",
    );
    assert_eq!(code(cloud.initialize_machine(&wanted, "", at(1))), Code::Internal);
    assert_eq!(flags(&cloud), expect((false, false), (true, false)));
    assert_eq!(status(&mut cloud, "a", 2), Code::Uninitialized);
    assert_eq!(code(cloud.initialize_machine(&wanted, "", at(3))), Code::Ok);
    assert_eq!(flags(&cloud), expect((false, false), (true, true)));
    assert_eq!(status(&mut cloud, "a", 4), Code::Ok);
}

#[test]
fn a_stale_answer_shows_the_ledger_as_it_was_so_long_ago() {
    let mut cloud = cloud();
    struck(&mut cloud, "{operation: get_status, stale: {by: 30s}}");
    struck(&mut cloud, "{operation: list, stale: {by: 30s}}");
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
fn a_stale_answer_shows_the_ledger_as_it_was_so_many_calls_ago() {
    let mut cloud = cloud();
    let rule = FaultRule {
        stale: Some(Stale::Calls(2)),
        ..FaultRule::new("a", Some(Operation::GetStatus), Code::Ok)
    };
    cloud.add_fault(rule, at(0)).unwrap();
    created(&mut cloud, "a", 10).unwrap();
    let seen: Vec<Code> = (11..15).map(|second| status(&mut cloud, "a", second)).collect();
    assert_eq!(seen, [Code::NotFound, Code::NotFound, Code::Ok, Code::Ok]);
}

#[test]
fn a_slow_deletion_takes_its_time_and_a_stuck_one_for_ever() {
    let mut cloud = cloud();
    for name in ["slow", "stuck"] {
        created(&mut cloud, name, 0).unwrap();
    }
    struck(&mut cloud, "{operation: delete, machine: slow, effectDelay: 10m}");
    struck(&mut cloud, "{operation: delete, machine: stuck, stuck: true}");
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
fn a_stuck_creation_makes_a_vm_that_never_boots() {
    let mut cloud = cloud();
    struck(&mut cloud, "{operation: create, stuck: true}");
    created(&mut cloud, "a", 0).unwrap();
    cloud.advance(at(100_000));
    assert_eq!(states(&cloud), [VmState::Pending]);
    cloud.step_vm(&machine("a"), at(100_001)).unwrap();
    assert_eq!(states(&cloud), [VmState::Running]);
}

#[test]
fn a_lying_cloud_says_that_it_did_what_it_did_not() {
    let mut cloud = cloud();
    struck(&mut cloud, "{operation: create, machine: never, lie: true}");
    created(&mut cloud, "never", 0).unwrap();
    assert_eq!(
        (cloud.live_count(), status(&mut cloud, "never", 1)),
        (0, Code::NotFound)
    );
    created(&mut cloud, "a", 2).unwrap();
    for operation in ["delete", "get_status", "list"] {
        struck(&mut cloud, &format!("{{operation: {operation}, lie: true}}"));
    }
    assert_eq!(code(cloud.delete_machine(&request("a"), "", at(3))), Code::Ok);
    assert_eq!((status(&mut cloud, "a", 4), listed(&mut cloud, 4)), (Code::NotFound, 0));
    assert_eq!(cloud.live_count(), 1);
}

#[test]
fn an_answer_may_not_name_the_node() {
    let mut cloud = cloud();
    struck(&mut cloud, "{operation: create, nameless: true, times: 1}");
    let made = created(&mut cloud, "a", 0).unwrap();
    assert_eq!((made.node_name, made.provider_id.is_some()), (None, true));
    struck(&mut cloud, "{operation: get_status, nameless: true, times: 1}");
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
fn a_rule_strikes_one_caller_and_not_another() {
    let mut cloud = cloud();
    struck(&mut cloud, "{caller: mcm-*, code: PermissionDenied}");
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
fn volumes_can_refuse_to_be_attached_and_detached() {
    let mut cloud = cloud();
    created(&mut cloud, "a", 0).unwrap();
    cloud.create_volume("v", "local-1", "1Gi", at(0)).unwrap();
    struck(&mut cloud, "{operation: attach, times: 1, code: Internal}");
    struck(
        &mut cloud,
        "{operation: detach, times: 1, code: Aborted, effectBeforeError: true}",
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
fn a_partial_update_sets_tags_and_not_flags() {
    let mut cloud = cloud();
    created(&mut cloud, "a", 0).unwrap();
    struck(
        &mut cloud,
        "{operation: update, code: Internal, partial: tags, times: 1}",
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
fn the_storage_of_a_cluster_meets_the_rules_too() {
    let mut cloud = cloud();
    struck(
        &mut cloud,
        "{operation: detach, machine: node-1, times: 2, code: Internal}",
    );
    let mut detaches = |node| cloud.lets_storage(Operation::Detach, "pv-1", node, "local-1", at(1));
    assert_eq!(
        [
            detaches("node-2"),
            detaches("node-1"),
            detaches("node-1"),
            detaches("node-1")
        ],
        [true, false, false, true]
    );
    assert!(cloud.lets_storage(Operation::Attach, "pv-1", "node-1", "local-1", at(2)));
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
