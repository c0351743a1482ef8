//! Whole machine lifecycles: create, run, delete, in a fixed order and in many random orders, with a controller that
//! may crash at any moment.

use std::time::Duration;

use mcm_api::Code;
use mcm_core::machine::{CallKind, Settings};
use rstest::rstest;

use crate::dice::Dice;
use crate::fixtures::{pod, unhealthy};
use crate::world::{End, World};

/// Runs the controller without failures until the machine reaches the phase or is deleted.
fn settle(world: &mut World, phase: &str) {
    for _ in 0..1000 {
        match world.run(usize::MAX) {
            End::Sleeps(wake) if world.phase() == phase => {
                world.narrative.push(format!("  (it sleeps for {wake:?})"));
                return;
            }
            End::Sleeps(_) if world.phase() == "Pending" => {
                world.advance(Duration::from_secs(30));
                world.boot();
            }
            End::Sleeps(wake) => world.advance(wake),
            End::Deleted => return,
            End::Crashed => {}
        }
    }
    panic!("the machine never reaches {phase}:\n{}", world.narrative.join("\n"));
}

#[test]
fn a_machine_is_created_runs_and_is_deleted() {
    let mut world = World::new(Settings::default());
    settle(&mut world, "Running");
    world.delete();
    settle(&mut world, "deleted");
    assert!(world.machine.is_none() && world.node.is_none() && world.cloud.vms.is_empty() && world.token.is_none());
    insta::assert_snapshot!(world.narrative.join("\n"));
}

#[test]
fn a_creation_that_fails_three_times_creates_one_vm() {
    let mut world = World::new(Settings::default());
    let (before, after) = (false, true);
    world.cloud.errors = vec![
        (CallKind::Create, Code::ResourceExhausted, before),
        (CallKind::Create, Code::Unavailable, before),
        (CallKind::Create, Code::Internal, after),
    ];
    settle(&mut world, "Running");
    assert_eq!(world.cloud.vms.len(), 1);
    insta::assert_snapshot!(world.narrative.join("\n"));
}

#[test]
fn a_lost_creation_by_a_driver_without_status_calls_is_adopted() {
    let mut world = World::new(Settings::default());
    world.cloud.without_status = true;
    world.cloud.errors = vec![(CallKind::Create, Code::Unavailable, true)];
    settle(&mut world, "Running");
    assert_eq!(world.cloud.vms.len(), 1);
    insta::assert_snapshot!(world.narrative.join("\n"));
    world.delete();
    settle(&mut world, "deleted");
    assert!(world.cloud.vms.is_empty());
}

/// One machine lifecycle in the order of `seed`: the controller crashes between any two actions or decides on a stale
/// view, cloud calls fail before or after their effect, and the node joins and a user deletes the machine at any time.
fn run_lifecycle(seed: u64, settings: Settings) -> Result<String, String> {
    let mut order = Dice::new(seed);
    let mut world = World::new(settings);
    world.deleted_during = (order.below(10) == 0).then_some(CallKind::Create);
    let mut before = None;
    for step in 0..400 {
        if order.below(4) == 0 {
            world.stale = before.take();
        }
        if order.below(3) == 0 {
            before = world.machine.clone().map(|machine| (machine, world.node.clone()));
        }
        match order.below(8) {
            0 => world.boot(),
            1 if step > 150 || order.below(60) == 0 => {
                world.delete();
            }
            2 if step < 300 => {
                let code = Code::ALL[1 + order.below(17)];
                let after = order.below(2) == 0;
                let uncertain = !matches!(code, Code::NotFound | Code::Unimplemented | Code::Uninitialized);
                let kinds = [
                    CallKind::Status,
                    CallKind::Create,
                    CallKind::Initialize,
                    CallKind::Delete,
                ];
                let kind = kinds[order.below(4)];
                world.cloud.errors.extend(uncertain.then_some((kind, code, after)));
            }
            3 | 4 => {
                world.run(order.below(6));
            }
            _ => match world.run(usize::MAX) {
                End::Sleeps(wake) => world.advance(wake.min(Duration::from_mins(3))),
                End::Deleted
                    if world
                        .narrative
                        .iter()
                        .any(|line| line.contains("the machine is deleted")) =>
                {
                    return Ok(world.narrative.join("\n"));
                }
                End::Deleted | End::Crashed => {
                    return Err(format!("unexpected deletion\n{}", world.narrative.join("\n")));
                }
            },
        }
        if let Some(violation) = world.violation() {
            return Err(format!("seed {seed}: {violation}\n{}", world.narrative.join("\n")));
        }
    }
    world.delete();
    world.cloud.errors.clear();
    world.stale = None;
    settle(&mut world, "deleted");
    if world.machine.is_some() || world.node.is_some() || !world.cloud.vms.is_empty() {
        return Err(format!(
            "seed {seed}: objects or VMs are left over\n{}",
            world.narrative.join("\n")
        ));
    }
    Ok(world.narrative.join("\n"))
}

#[test]
fn a_hundred_random_machine_lifecycles_keep_every_invariant() {
    let lifecycles =
        (0..100).map(|seed| run_lifecycle(seed, Settings::default()).unwrap_or_else(|violation| panic!("{violation}")));
    let narratives = lifecycles.collect::<Vec<_>>().join("\n");
    for event in [
        "the controller crashes",
        "the machine was written meanwhile",
        "conflict",
        "CreateMachine failed",
        "GetMachineStatus failed",
        "InitializeMachine failed",
        "DeleteMachine failed",
        "the VM was created while the machine was deleted",
        "the node joined",
    ] {
        assert!(narratives.contains(event), "no lifecycle has the event: {event}");
    }
}

#[test]
fn a_machine_is_created_and_deleted_although_the_controller_crashes_after_any_action() {
    for crash_after in 0..40 {
        let mut world = World::new(Settings::default());
        let mut crashes = 0;
        for phase in ["Running", "deleted"] {
            if matches!(world.run(crash_after), End::Crashed) {
                crashes += 1;
            }
            settle(&mut world, phase);
            world.delete();
        }
        assert!(
            world.machine.is_none() && world.node.is_none() && world.cloud.vms.is_empty(),
            "crashed after {crash_after} actions"
        );
        assert!(
            crashes > 0 || crash_after > 5,
            "a run limited to {crash_after} actions crashes"
        );
    }
}

/// Acceptance list "Creation map" of the specification. The queue replaces the map: it gives one key to one worker at a
/// time (`src/reconcile/queue.rs`). A deletion is reconciled as soon as the creation call returns, without the medium
/// retry period, and first records the created VM.
#[rstest]
#[case::deletion_refused_while_present(
    Some(CallKind::Create),
    "the VM was created while the machine was deleted: it is recorded first -> patch node=worker-x7k2p priority=3 \
     provider=fakecloud:///z1/vm-1"
)]
#[case::key_removed_after_the_creation_flow(Some(CallKind::Initialize), "the machine is being deleted => Terminating")]
#[case::deletion_proceeds_when_absent(None, "the machine is being deleted => Terminating")]
fn a_deletion_waits_for_a_creation_in_progress(#[case] during: Option<CallKind>, #[case] first: &str) {
    let mut world = World::new(Settings::default());
    world.deleted_during = during;
    world.run(usize::MAX);
    if during.is_none() {
        assert_eq!(world.phase(), "Pending");
        world.delete();
    }
    settle(&mut world, "deleted");
    let mut lines = world.narrative.iter();
    lines.find(|line| line.contains("the machine is deleted"));
    assert_eq!(lines.next().map(String::as_str), Some(first), "{:#?}", world.narrative);
    assert!(
        world.machine.is_none() && world.cloud.vms.is_empty(),
        "neither machine nor VM is left"
    );
}

#[test]
fn a_restarted_controller_finishes_an_interrupted_forced_drain() {
    for crash_after in 0..12 {
        let mut world = World::new(Settings::default());
        settle(&mut world, "Running");
        let node = world.node.as_mut().unwrap();
        node.status.as_mut().unwrap().conditions = Some(unhealthy());
        world.pods.push(pod("web-2"));
        world.advance(Duration::from_mins(6));
        world.delete();
        let crashed = matches!(world.run(crash_after), End::Crashed);
        settle(&mut world, "deleted");
        let narrative = world.narrative.join("\n");
        assert!(
            narrative.contains("cordon") && narrative.contains("delete pod web-1"),
            "{narrative}"
        );
        assert!(!narrative.contains("evict"), "{narrative}");
        assert!(world.machine.is_none() && world.node.is_none() && world.cloud.vms.is_empty() && world.pods.is_empty());
        assert!(
            crashed || crash_after > 8,
            "a run limited to {crash_after} actions crashes\n{narrative}"
        );
    }
}

#[test]
fn a_controller_that_skips_the_status_call_creates_a_second_vm() {
    if !defects::CAN_BE_PLANTED {
        return;
    }
    let _planted = defects::plant(Some(defects::Defect::CreatesWithoutAsking));
    let caught =
        std::panic::catch_unwind(|| (0..100).try_for_each(|seed| run_lifecycle(seed, Settings::default()).map(|_| ())));
    assert!(
        !matches!(caught, Ok(Ok(()))),
        "a hundred lifecycles do not detect the defect"
    );
}
