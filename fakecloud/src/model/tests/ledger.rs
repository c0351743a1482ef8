//! Parts, volumes, limits, credentials, hot updates, and the audit of the ledger.

use super::*;
use crate::model::{FindingKind, Looking, MachineType, Token};

fn with(yaml: &str) -> Cloud {
    let settings = Settings {
        boot_delay: Delay::Constant(BOOT),
        ..configured(yaml)
    };
    Cloud::new(settings, Seed::new(1), at(0))
}

#[test]
fn a_vm_is_created_and_deleted_with_its_disks_and_interfaces_but_not_its_volumes() {
    let mut cloud = cloud();
    let mut wanted = request("a");
    wanted.class.provider_spec["disks"] = json!([{"name": "boot", "size": "50Gi"}, {"name": "local", "type": "ssd"}]);
    wanted.class.provider_spec["nics"] = json!([{"name": "eth0", "network": "blue", "tags": {"a": "b"}}]);
    cloud.create_machine(&wanted, at(0)).result.unwrap();
    let vm = cloud.vms().next().unwrap().clone();
    let disks: Vec<(String, String, bool)> = cloud
        .disks_of(&vm)
        .map(|disk| (disk.size.clone(), disk.kind.clone(), disk.boot))
        .collect();
    assert!(
        disks.contains(&("50Gi".to_owned(), "standard".to_owned(), true)),
        "{disks:?}"
    );
    assert!(
        disks.contains(&("20Gi".to_owned(), "ssd".to_owned(), false)),
        "{disks:?}"
    );
    assert_eq!(cloud.nics_of(&vm).next().unwrap().network, "blue");
    cloud.create_volume("v", "local-1", "1Gi", at(1)).unwrap();
    cloud.attach_volume("v", &machine("a"), at(1)).unwrap();
    cloud.delete_machine(&request("a"), "", at(2)).result.unwrap();
    assert_eq!((cloud.disks().count(), cloud.nics().count()), (0, 0));
    assert_eq!(
        cloud.volumes().map(|volume| volume.vm.clone()).collect::<Vec<_>>(),
        [None]
    );
}

#[test]
fn a_volume_is_attached_to_one_vm_of_its_zone() {
    let mut cloud = with("csi: {volumesPerNode: 2}");
    for name in ["a", "b"] {
        cloud.create_machine(&request(name), at(0)).result.unwrap();
    }
    let zones = [("v1", "local-1"), ("v2", "local-1"), ("v3", "local-1"), ("v4", "far-1")];
    for (volume, zone) in zones {
        cloud.create_volume(volume, zone, "1Gi", at(0)).unwrap();
    }
    let mut attach = |volume: &str, name: &str| {
        let attached = cloud.attach_volume(volume, &machine(name), at(1));
        attached.map(drop).map_err(|error| (error.code, error.message))
    };
    let refused = |result: Result<(), (Code, String)>, text: &str| {
        let (code, message) = result.unwrap_err();
        assert!(code == Code::FailedPrecondition && message.contains(text), "{message}");
    };
    attach("v1", "a").unwrap();
    attach("v1", "a").unwrap();
    refused(attach("v1", "b"), "detach it there first");
    refused(attach("v4", "a"), "is in zone far-1");
    attach("v2", "a").unwrap();
    refused(attach("v3", "a"), "at most 2 are allowed");
    assert_eq!(attach("none", "a").unwrap_err().0, Code::NotFound);
    assert_eq!(attach("v3", "missing").unwrap_err().0, Code::NotFound);
    assert_eq!(
        cloud.delete_volume("v1", at(2)).unwrap_err().code,
        Code::FailedPrecondition
    );
    cloud.detach_volume("v1", at(3)).unwrap();
    cloud.delete_volume("v1", at(4)).unwrap();
    cloud.delete_volume("v1", at(5)).unwrap();
    assert_eq!(
        cloud.create_volume("v2", "local-1", "2Gi", at(6)).unwrap_err().code,
        Code::AlreadyExists
    );
    assert!(cloud.create_volume("v2", "local-1", "1Gi", at(6)).is_ok());
    assert!(
        cloud
            .create_volume("v9", "local-1", "big", at(6))
            .unwrap_err()
            .message
            .starts_with("size:")
    );
}

#[test]
fn a_quota_counts_existing_vms_and_capacity_running_ones() {
    let mut cloud =
        with("quotas: [{machineType: small, zone: local-*, vms: 3}]\ncapacity: [{machineType: small, vms: 2}]");
    let create = |cloud: &mut Cloud, name: &str| cloud.create_machine(&request(name), at(1)).result;
    create(&mut cloud, "a").unwrap();
    create(&mut cloud, "b").unwrap();
    let full = create(&mut cloud, "c").unwrap_err();
    assert_eq!(full.code, Code::ResourceExhausted);
    assert!(
        full.message
            .contains("no capacity for machine type small in zone local-1"),
        "{}",
        full.message
    );
    assert_eq!(cloud.nics().count(), 2);
    // A stopped VM frees capacity, and needs it again.
    cloud.stop_vm(&machine("a"), at(2)).unwrap();
    create(&mut cloud, "c").unwrap();
    assert!(
        cloud
            .start_vm(&machine("a"), at(3))
            .unwrap_err()
            .to_string()
            .contains("no capacity")
    );
    cloud.delete_vm(&machine("c"), at(4)).unwrap();
    cloud.start_vm(&machine("a"), at(5)).unwrap();
    cloud.set_limit(LimitKind::Capacity, "small", "*", None, at(6)).unwrap();
    create(&mut cloud, "d").unwrap();
    let full = create(&mut cloud, "e").unwrap_err();
    assert!(
        full.message.contains("the quota of 3 VMs") && full.code == Code::ResourceExhausted,
        "{}",
        full.message
    );
    cloud
        .set_limit(LimitKind::Quota, "small", "local-*", Some(4), at(7))
        .unwrap();
    create(&mut cloud, "e").unwrap();
    assert_eq!(cloud.limits(LimitKind::Quota)[0].1, 4);
    // A second call for a machine with a VM needs no capacity.
    assert!(create(&mut cloud, "e").is_ok());
}

#[test]
fn a_limit_of_nothing_is_refused() {
    let mut cloud = with("zones: [a-1, a-2]");
    let mut set = |machine_type: &str, zone: &str, vms| {
        let set = cloud.set_limit(LimitKind::Quota, machine_type, zone, vms, at(1));
        set.map_err(|error| error.to_string())
    };
    let error = set("tiny", "*", Some(1)).unwrap_err();
    assert_eq!(
        error,
        "machine_type: \"tiny\" matches none of this cloud's machine types: large, medium, small"
    );
    let error = set("*", "b-*", Some(1)).unwrap_err();
    assert_eq!(error, "zone: \"b-*\" matches none of this cloud's zones: a-1, a-2");
    assert_eq!(set("small", "a-1", Some(1)), Ok(()));
    let error = set("small", "a-2", None).unwrap_err();
    assert_eq!(error, "there is no limit of small in a-2; there are: small in a-1");
}

#[test]
fn each_api_has_its_rate() {
    let mut cloud = with("rateLimits: [{call: listMachines, perSecond: 1, burst: 2}]");
    let of = request("a");
    let list = |cloud: &mut Cloud, now| code(cloud.list_machines(&of.class, &of.secret, "", at(now)));
    let codes: Vec<Code> = [0, 0, 0, 1, 1].map(|now| list(&mut cloud, now)).to_vec();
    assert_eq!(
        codes,
        [Code::Ok, Code::Ok, Code::Unavailable, Code::Ok, Code::Unavailable]
    );
    assert_eq!(code(cloud.machine_status(&of, "", at(1))), Code::NotFound);
}

#[test]
fn credentials_are_checked_at_every_call_and_can_be_replaced() {
    let mut cloud = with("apiTokens: [planted-credential]");
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    cloud.set_credentials(vec![Token::new("new")], at(1));
    let calls = |cloud: &mut Cloud, of: &MachineRequest| {
        [
            code(cloud.create_machine(of, at(2))),
            code(cloud.initialize_machine(of, "", at(2))),
            code(cloud.machine_status(of, "", at(2))),
            code(cloud.list_machines(&of.class, &of.secret, "", at(2))),
            code(cloud.delete_machine(of, "", at(2))),
        ]
    };
    let mut of = request("a");
    assert_eq!(calls(&mut cloud, &of), [Code::Unauthenticated; 5]);
    assert_eq!(cloud.live_count(), 1);
    of.secret.insert("apiToken".to_owned(), ByteString(b"new".to_vec()));
    assert_eq!(calls(&mut cloud, &of), [Code::Ok; 5]);
    assert!(!format!("{cloud:?}").contains("planted-credential"));
}

#[test]
fn the_region_of_a_vm_is_that_of_its_zone() {
    let mut cloud = with("regions: {north: [local-1], south: [far-1]}");
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    assert_eq!(cloud.vms().next().unwrap().region, "north");
}

#[test]
fn machine_types_have_a_price() {
    let cloud = with("machineTypes: {small: {cpu: '2', memory: 8Gi, gpu: '1', price: '0.096'}}");
    let small: &MachineType = &cloud.settings().machine_types["small"];
    assert_eq!(
        (small.price.as_deref(), small.gpu.as_deref()),
        (Some("0.096"), Some("1"))
    );
}

#[test]
fn an_update_changes_only_the_named_fields_and_keeps_foreign_tags() {
    let mut cloud = with("requiredTags: [kubernetes.io/role/node]");
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    let update = |set: &[(&str, &str)], remove: &[&str], nic: Option<&str>| VmUpdate {
        set_tags: set
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        remove_tags: remove.iter().map(|key| (*key).to_owned()).collect(),
        nics: nic
            .into_iter()
            .map(|name| {
                (
                    name.to_owned(),
                    NicFlags {
                        source_destination_check: false,
                        ipv6: true,
                    },
                )
            })
            .collect(),
    };
    let good = update(&[("owner", "me")], &["kubernetes.io/cluster/shoot"], Some("primary"));
    let vm = cloud.update_vm(&machine("a"), &good, at(1)).unwrap();
    assert_eq!(
        vm.tags.keys().map(String::as_str).collect::<Vec<_>>(),
        ["kubernetes.io/role/node", "owner"]
    );
    assert!(cloud.nics().next().unwrap().flags.ipv6);
    for (bad, expected) in [
        (
            update(&[], &["kubernetes.io/role/node"], None),
            "remove_tags: this cloud's VMs must have",
        ),
        (
            update(&[("a", "b")], &[], Some("eth7")),
            "nics[eth7]: there is none; the VM has primary",
        ),
        (
            update(&[("a", &"x".repeat(300))], &[], None),
            "set_tags[a]: the value has 300 characters",
        ),
    ] {
        let error = cloud.update_vm(&machine("a"), &bad, at(2)).unwrap_err();
        assert!(
            error.code == Code::InvalidArgument && error.message.starts_with(expected),
            "{}",
            error.message
        );
    }
    assert_eq!(cloud.vms().next().unwrap().tags.len(), 2);
}

fn findings(cloud: &mut Cloud, uids: Option<&[&str]>, grace: u64, now: i64) -> Vec<FindingKind> {
    let looking = Looking {
        machine_uids: uids.map(|uids| uids.iter().map(|uid| (*uid).to_owned()).collect()),
        grace: Duration::from_secs(grace),
    };
    cloud
        .audit_ledger(&looking, at(now))
        .into_iter()
        .map(|finding| finding.kind)
        .collect()
}

#[test]
fn the_audit_finds_vms_disks_and_interfaces_without_an_owner() {
    let mut cloud = cloud();
    cloud
        .create_nodes(
            NodesSpec {
                count: 2,
                machine_type: "small".to_owned(),
                ..NodesSpec::default()
            },
            at(0),
        )
        .unwrap();
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    cloud.create_machine(&request("b"), at(0)).result.unwrap();
    assert_eq!(findings(&mut cloud, None, 0, 1), []);
    assert_eq!(findings(&mut cloud, Some(&["uid-of-a"]), 0, 1), [FindingKind::OrphanVm]);
    assert_eq!(findings(&mut cloud, Some(&["uid-of-a"]), 60, 1), []);
    assert_eq!(findings(&mut cloud, Some(&["uid-of-a", "uid-of-b"]), 0, 1), []);
    let rule: FaultRule =
        serde_saphyr::from_str("{match: {call: createMachine}, action: {code: Internal, partial: disks}}").unwrap();
    cloud.add_fault(rule, at(2)).unwrap();
    cloud.create_machine(&request("c"), at(3)).result.unwrap_err();
    assert_eq!(
        findings(&mut cloud, None, 0, 4),
        [FindingKind::OrphanDisk, FindingKind::OrphanNic]
    );
}

#[test]
fn the_audit_finds_duplicates() {
    let mut cloud = Cloud::new(settings(DuplicateCreates::Two), Seed::new(1), at(0));
    for second in 0..3 {
        cloud.create_machine(&request("a"), at(second)).result.unwrap();
    }
    assert_eq!(findings(&mut cloud, None, 0, 4), [FindingKind::DuplicateVm; 2]);
}

#[test]
fn the_audit_finds_deletions_of_healthy_vms() {
    let mut cloud = cloud();
    for name in ["healthy", "deleted", "dead"] {
        cloud.create_machine(&request(name), at(0)).result.unwrap();
    }
    cloud.advance(at(10));
    let ids: Vec<String> = cloud.vms().map(|vm| vm.id.clone()).collect();
    ids.iter().for_each(|id| cloud.kubelet_joined(id, at(11)));
    cloud.kill_vm(&machine("dead"), at(12)).unwrap();
    let mut deleted = request("deleted");
    deleted.machine.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(12)));
    for of in [request("healthy"), deleted, request("dead")] {
        assert_eq!(code(cloud.delete_machine(&of, "mcm-0", at(13))), Code::Ok);
    }
    let found = cloud.audit_ledger(&Looking::default(), at(14));
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].kind, found[0].machine.as_str()),
        (FindingKind::HealthyVmDeleted, "default/healthy")
    );
    assert!(found[0].message.contains("by mcm-0"), "{}", found[0].message);
    // For a removed machine the deletion was legal.
    assert_eq!(findings(&mut cloud, Some(&[]), 0, 14), []);
}

#[test]
fn the_audit_finds_calls_while_frozen() {
    let mut cloud = cloud();
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    cloud.set_frozen(true, at(1));
    cloud.create_machine(&request("b"), at(2)).result.unwrap();
    cloud.machine_status(&request("b"), "", at(2)).result.unwrap();
    cloud.delete_machine(&request("b"), "", at(3)).result.unwrap();
    cloud.set_frozen(false, at(4));
    cloud.delete_machine(&request("a"), "", at(5)).result.unwrap();
    assert_eq!(findings(&mut cloud, None, 0, 6), [FindingKind::CallWhileFrozen; 2]);
}
