//! Whole lives: create, run, delete, in a fixed order and in many random ones, with a controller that
//! dies at any moment.

use std::time::Duration;

use mcm_api::Code;
use mcm_core::machine::{CallKind, Settings};
use rstest::rstest;

use crate::dice::Dice;
use crate::fixtures::{pod, unhealthy};
use crate::world::{End, World};

/// Runs the controller whenever it wakes, without trouble, until the phase is reached.
fn settle(world: &mut World, phase: &str) {
    for _ in 0..1000 {
        match world.run(usize::MAX) {
            End::Sleeps(wake) if world.phase() == phase => {
                world.narrative.push(format!("  (it sleeps for {wake:?})"));
                return;
            }
            End::Sleeps(_) if world.phase() == "Pending" => {
                world.pass(Duration::from_secs(30));
                world.boot();
            }
            End::Sleeps(wake) => world.pass(wake),
            End::Gone => return,
            End::Crashed => {}
        }
    }
    panic!("{phase} is never reached:\n{}", world.narrative.join("\n"));
}

#[test]
fn a_machine_is_created_runs_and_is_deleted() {
    let mut world = World::new(Settings::default());
    settle(&mut world, "Running");
    world.delete();
    settle(&mut world, "gone");
    assert!(world.machine.is_none() && world.node.is_none() && world.cloud.vms.is_empty() && world.token.is_none());
    insta::assert_snapshot!(world.narrative.join("\n"));
}

#[test]
fn a_creation_that_fails_three_times_makes_one_vm() {
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

/// One life in the order of `seed`: the controller dies between any two actions or decides on what was
/// true a while ago, calls fail before or after their effect, the node joins and the person deletes at
/// any time.
fn live(seed: u64, settings: Settings) -> Result<String, String> {
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
                End::Sleeps(wake) => world.pass(wake.min(Duration::from_mins(3))),
                End::Gone
                    if world
                        .narrative
                        .iter()
                        .any(|line| line.contains("the machine is deleted")) =>
                {
                    return Ok(world.narrative.join("\n"));
                }
                End::Gone | End::Crashed => return Err(format!("gone\n{}", world.narrative.join("\n"))),
            },
        }
        if let Some(breach) = world.breach() {
            return Err(format!("seed {seed}: {breach}\n{}", world.narrative.join("\n")));
        }
    }
    world.delete();
    world.cloud.errors.clear();
    world.stale = None;
    settle(&mut world, "gone");
    if world.machine.is_some() || world.node.is_some() || !world.cloud.vms.is_empty() {
        return Err(format!(
            "seed {seed}: something is left\n{}",
            world.narrative.join("\n")
        ));
    }
    Ok(world.narrative.join("\n"))
}

#[test]
fn a_hundred_lives_in_random_orders_keep_every_invariant() {
    let lives = (0..100).map(|seed| live(seed, Settings::default()).unwrap_or_else(|breach| panic!("{breach}")));
    let told = lives.collect::<Vec<_>>().join("\n");
    for event in [
        "the controller dies",
        "the machine was written meanwhile",
        "conflict",
        "CreateMachine failed",
        "GetMachineStatus failed",
        "InitializeMachine failed",
        "DeleteMachine failed",
        "the VM was made while the machine was deleted",
        "the node joined",
    ] {
        assert!(told.contains(event), "no life has: {event}");
    }
}

#[test]
fn a_controller_that_dies_after_any_action_still_brings_a_machine_up_and_down() {
    for survives in 0..40 {
        let mut world = World::new(Settings::default());
        let mut crashes = 0;
        for phase in ["Running", "gone"] {
            if matches!(world.run(survives), End::Crashed) {
                crashes += 1;
            }
            settle(&mut world, phase);
            world.delete();
        }
        assert!(
            world.machine.is_none() && world.node.is_none() && world.cloud.vms.is_empty(),
            "died after {survives}"
        );
        assert!(
            crashes > 0 || survives > 5,
            "a run of {survives} actions ends by a crash"
        );
    }
}

/// Acceptance list "Creation map" of the specification. Ours is the queue, which gives one key to one worker at a time
/// (`a_key_at_work_waits_until_it_is_done` in the shell): a deletion comes to its turn when the creation's call has
/// returned, at once and not after the medium retry period, and first of all with the VM that was made.
#[rstest]
#[case::deletion_refused_while_present(
    Some(CallKind::Create),
    "the VM was made while the machine was deleted: it is recorded first -> patch node=worker-x7k2p priority=3 \
     provider=fakecloud:///z1/vm-1"
)]
#[case::key_removed_after_the_creation_flow(Some(CallKind::Initialize), "the machine is being deleted => Terminating")]
#[case::deletion_proceeds_when_absent(None, "the machine is being deleted => Terminating")]
fn a_deletion_waits_for_a_creation_that_is_under_way(#[case] during: Option<CallKind>, #[case] first: &str) {
    let mut world = World::new(Settings::default());
    world.deleted_during = during;
    world.run(usize::MAX);
    if during.is_none() {
        assert_eq!(world.phase(), "Pending");
        world.delete();
    }
    settle(&mut world, "gone");
    let mut told = world.narrative.iter();
    told.find(|line| line.contains("the machine is deleted"));
    assert_eq!(told.next().map(String::as_str), Some(first), "{:#?}", world.narrative);
    assert!(world.machine.is_none() && world.cloud.vms.is_empty(), "nothing is left");
}

#[test]
fn a_forced_drain_that_is_cut_short_anywhere_is_finished_by_the_next_process() {
    for survives in 0..12 {
        let mut world = World::new(Settings::default());
        settle(&mut world, "Running");
        let node = world.node.as_mut().unwrap();
        node.status.as_mut().unwrap().conditions = Some(unhealthy());
        world.pods.push(pod("web-2"));
        world.pass(Duration::from_mins(6));
        world.delete();
        let crashed = matches!(world.run(survives), End::Crashed);
        settle(&mut world, "gone");
        let told = world.narrative.join("\n");
        assert!(told.contains("cordon") && told.contains("delete pod web-1"), "{told}");
        assert!(!told.contains("evict"), "{told}");
        assert!(world.machine.is_none() && world.node.is_none() && world.cloud.vms.is_empty() && world.pods.is_empty());
        assert!(
            crashed || survives > 8,
            "a run of {survives} actions ends by a crash\n{told}"
        );
    }
}

#[test]
fn a_controller_that_does_not_ask_first_makes_a_second_vm() {
    if !defects::CAN_BE_PLANTED {
        return;
    }
    let _planted = defects::plant(Some(defects::Defect::CreatesWithoutAsking));
    let caught = std::panic::catch_unwind(|| (0..100).try_for_each(|seed| live(seed, Settings::default()).map(|_| ())));
    assert!(
        !matches!(caught, Ok(Ok(()))),
        "the defect lives a hundred lives unnoticed"
    );
}
