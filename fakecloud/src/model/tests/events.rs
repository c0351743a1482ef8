//! Events of VMs and zones.

use super::*;
use crate::model::{Availability, TERMINATION_SCHEDULED, ZoneFailure, ZoneOutage};

/// Machines `a` in zone local-1 and `b` in far-1, both running.
fn two_zones() -> Cloud {
    let mut cloud = cloud();
    cloud.create_machine(&request("a"), at(0)).result.unwrap();
    cloud.create_machine(&far("b"), at(0)).result.unwrap();
    cloud.advance(at(10));
    assert_eq!(states(&cloud), [VmState::Running; 2]);
    cloud
}

fn far(name: &str) -> MachineRequest {
    let mut request = request(name);
    request.class.provider_spec["zone"] = json!("far-1");
    request
}

fn fail(cloud: &mut Cloud, failure: ZoneFailure, lasts: Option<u64>, now: i64) {
    let outage = ZoneOutage::new("local-*", failure, at(now));
    cloud
        .fail_zone(outage, lasts.map(Duration::from_secs), at(now))
        .unwrap();
}

#[test]
fn a_preempted_vm_has_a_condition_and_stops_after_the_notice() {
    let mut cloud = two_zones();
    let notice = Duration::from_secs(120);
    let vm = cloud.preempt_vm(&machine("a"), notice, at(20)).unwrap();
    assert_eq!((vm.state, vm.preempted), (VmState::Running, Some(at(140))));
    assert_eq!(vm.conditions[TERMINATION_SCHEDULED].as_ref().unwrap().status, "True");
    assert_eq!(cloud.next_deadline(), Some(at(140)));
    cloud.advance(at(139));
    assert_eq!(states(&cloud), [VmState::Running; 2]);
    cloud.advance(at(140));
    let vm = cloud.vms().next().unwrap();
    assert_eq!((vm.state, vm.reason.as_str()), (VmState::Stopped, "it was pre-empted"));
    assert_eq!(vm.conditions[TERMINATION_SCHEDULED], None);
    assert_eq!(cloud.live_count(), 2);
}

#[test]
fn after_a_kernel_panic_nothing_runs_until_the_next_boot() {
    let mut cloud = two_zones();
    cloud.panic_vm(&machine("a"), at(20)).unwrap();
    let up = |cloud: &Cloud| cloud.vms().next().unwrap().kubelet.availability(at(1000)).0;
    assert_eq!(
        (states(&cloud)[0], up(&cloud)),
        (VmState::Running, Availability::Stopped)
    );
    cloud.reboot_vm(&machine("a"), at(30)).unwrap();
    assert_eq!(up(&cloud), Availability::Up);
}

#[test]
fn a_full_disk_is_a_condition_of_the_node() {
    let mut cloud = two_zones();
    let vm = cloud.fill_disk(&machine("a"), at(20)).unwrap();
    assert_eq!(vm.conditions["DiskPressure"].as_ref().unwrap().status, "True");
    let vm = cloud
        .clear_node_condition(&machine("a"), "DiskPressure", at(30))
        .unwrap();
    assert_eq!(vm.conditions["DiskPressure"], None);
}

#[test]
fn while_the_api_of_a_zone_is_down_its_vms_run_and_calls_about_them_fail() {
    let mut cloud = two_zones();
    fail(&mut cloud, ZoneFailure::Api, None, 20);
    assert_eq!(code(cloud.machine_status(&request("a"), "", at(21))), Code::Unavailable);
    assert_eq!(code(cloud.create_machine(&request("c"), at(21))), Code::Unavailable);
    assert_eq!(code(cloud.machine_status(&far("b"), "", at(21))), Code::Ok);
    assert_eq!(states(&cloud), [VmState::Running; 2]);
    assert_eq!(cloud.zone_outages().next().unwrap().hits, 2);
    cloud.restore_zone("local-*", at(30)).unwrap();
    assert_eq!(code(cloud.machine_status(&request("a"), "", at(31))), Code::Ok);
}

#[test]
fn vms_stop_when_the_hosts_of_their_zone_fail_and_boot_again_after_recovery() {
    let mut cloud = two_zones();
    let before: Vec<String> = cloud.vms().map(|vm| vm.boot_id.clone()).collect();
    fail(&mut cloud, ZoneFailure::Compute, Some(600), 20);
    assert_eq!(states(&cloud), [VmState::Stopped, VmState::Running]);
    // Calls are answered, and new VMs wait.
    cloud.create_machine(&request("c"), at(30)).result.unwrap();
    let refused = cloud.start_vm(&machine("a"), at(40)).unwrap_err().to_string();
    assert!(refused.contains("hosts of its zone"), "{refused}");
    cloud.advance(at(619));
    assert_eq!(states(&cloud), [VmState::Stopped, VmState::Running, VmState::Pending]);
    cloud.advance(at(620));
    assert_eq!(states(&cloud)[2], VmState::Running);
    assert_eq!(cloud.next_deadline(), Some(at(625)));
    cloud.advance(at(700));
    assert_eq!(states(&cloud), [VmState::Running; 3]);
    let after: Vec<String> = cloud.vms().map(|vm| vm.boot_id.clone()).collect();
    assert!(after[0] != before[0] && after[1] == before[1]);
}

#[test]
fn a_vm_that_was_switched_off_stays_off_when_its_zone_recovers() {
    let mut cloud = two_zones();
    cloud.stop_vm(&machine("a"), at(15)).unwrap();
    fail(&mut cloud, ZoneFailure::Both, None, 20);
    assert_eq!(code(cloud.machine_status(&request("a"), "", at(21))), Code::Unavailable);
    cloud.restore_zone("local-*", at(30)).unwrap();
    cloud.advance(at(1000));
    assert_eq!(states(&cloud), [VmState::Stopped, VmState::Running]);
}

#[test]
fn a_second_failure_keeps_track_of_vms_that_the_first_one_stopped() {
    let mut cloud = two_zones();
    fail(&mut cloud, ZoneFailure::Compute, None, 20);
    fail(&mut cloud, ZoneFailure::Both, None, 30);
    cloud.advance(at(500));
    assert_eq!(states(&cloud)[0], VmState::Stopped);
    cloud.restore_zone("local-*", at(600)).unwrap();
    cloud.advance(at(700));
    assert_eq!(states(&cloud)[0], VmState::Running);
}

#[test]
fn in_a_brown_out_some_calls_fail_and_the_others_are_slow() {
    let mut cloud = two_zones();
    fail(&mut cloud, ZoneFailure::BrownOut, None, 20);
    let (mut failed, mut late) = (0, 0);
    for _ in 0..200 {
        let reply = cloud.machine_status(&request("a"), "", at(21));
        match reply.result {
            Ok(_) if reply.delay >= Duration::from_secs(1) => late += 1,
            Err(error) if error.code == Code::Unavailable => failed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(
        (70..130).contains(&failed) && failed + late == 200,
        "{failed} and {late}"
    );
    assert_eq!(states(&cloud), [VmState::Running; 2]);
}

#[test]
fn an_invalid_failure_is_rejected() {
    let settings = Settings {
        zones: vec!["near".to_owned()],
        ..configured("")
    };
    let mut cloud = Cloud::new(settings, Seed::new(1), at(0));
    let mut refused = |zone: &str, percent: u32, lasts: Option<Duration>| {
        let mut outage = ZoneOutage::new(zone, ZoneFailure::BrownOut, at(0));
        outage.error_percent = percent;
        cloud.fail_zone(outage, lasts, at(0)).unwrap_err().to_string()
    };
    assert!(refused("", 50, None).starts_with("zone: is empty"));
    assert!(refused("far", 50, None).contains("matches none of this cloud's zones: near"));
    assert!(refused("near", 0, None).starts_with("error_percent: is 0"));
    assert!(refused("near", 50, Some(Duration::ZERO)).starts_with("lasts: must be longer"));
    assert!(
        cloud
            .restore_zone("near", at(1))
            .unwrap_err()
            .to_string()
            .contains("\"near\" has no active failure")
    );
}
