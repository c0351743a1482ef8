use rstest::rstest;
use serde_json::json;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_893_456_000 + seconds).unwrap()
}

fn event(seconds: i64, recorded: u64) -> Arrival {
    Arrival {
        at: at(seconds),
        recorded,
        is_step: false,
        is_after_due_steps: false,
    }
}

fn step(seconds: i64, recorded: u64) -> Arrival {
    Arrival {
        is_step: true,
        ..event(seconds, recorded)
    }
}

/// A world that waits before the first step of its scenario.
fn waiting() -> Playback {
    let mut playback = Playback::new(at(0), at(0));
    assert_eq!(playback.arrive(at(0), event(0, 0)), Gate::Open);
    assert_eq!(playback.arrive(at(0), step(0, 3)), Gate::Closed);
    playback
}

fn state(playback: &Playback, now: i64) -> (&'static str, i64) {
    let status = playback.status(at(now));
    (status.state, status.at / 1_000_000)
}

#[test]
fn a_world_waits_before_its_first_step_and_while_it_is_paused() {
    let mut playback = waiting();
    assert_eq!(playback.arrive(at(3600), step(0, 3)), Gate::Closed);
    assert_eq!(state(&playback, 3600), ("paused", 0));
    playback.command(at(3600), Command::Resume).unwrap();
    assert_eq!(playback.arrive(at(3600), step(0, 3)), Gate::Open);
    playback.command(at(3600), Command::Pause).unwrap();
    assert_eq!(playback.arrive(at(3600), event(0, 4)), Gate::Closed);
}

#[test]
fn one_event_is_one_recorded_event() {
    let mut playback = waiting();
    playback.command(at(1), Command::Event).unwrap();
    assert_eq!(playback.arrive(at(1), step(0, 3)), Gate::Open);
    // What is not recorded, such as a heartbeat, is no event.
    assert_eq!(playback.arrive(at(1), event(30, 3)), Gate::Open);
    assert_eq!(playback.arrive(at(1), event(90, 3)), Gate::Open);
    assert_eq!(playback.arrive(at(1), event(90, 4)), Gate::Closed);
    assert_eq!(state(&playback, 1), ("paused", 90));
    // Again from here: the event that waits is not passed twice.
    playback.command(at(2), Command::Event).unwrap();
    assert_eq!(playback.arrive(at(2), event(90, 4)), Gate::Open);
    assert_eq!(playback.arrive(at(2), event(90, 5)), Gate::Closed);
}

#[test]
fn a_world_goes_on_to_the_next_step_of_its_scenario() {
    let mut playback = waiting();
    playback.command(at(1), Command::Step).unwrap();
    assert_eq!(
        playback.arrive(at(1), step(0, 3)),
        Gate::Open,
        "the step at which it waits"
    );
    assert_eq!(playback.arrive(at(1), event(500, 9)), Gate::Open);
    assert_eq!(playback.arrive(at(1), step(600, 12)), Gate::Closed);
    assert_eq!(state(&playback, 1).0, "paused");
}

#[rstest]
#[case::real_time(1.0, 60)]
#[case::a_minute_each_second(60.0, 1)]
fn at_a_speed_an_event_waits_for_its_time(#[case] times: f64, #[case] seconds: u64) {
    let mut playback = waiting();
    playback.command(at(100), Command::Speed(Speed::Times(times))).unwrap();
    playback.command(at(100), Command::Resume).unwrap();
    assert_eq!(playback.arrive(at(100), step(0, 3)), Gate::Open);
    assert_eq!(
        playback.arrive(at(100), event(60, 4)),
        Gate::After(Duration::from_secs(seconds))
    );
    let wall = i64::try_from(seconds).unwrap();
    assert_eq!(playback.arrive(at(100 + wall), event(60, 4)), Gate::Open);
    // An event that comes late does not make the later ones hurry.
    assert_eq!(playback.arrive(at(1000), event(61, 5)), Gate::Open);
    let Gate::After(left) = playback.arrive(at(1000), event(121, 6)) else {
        panic!("it does not wait")
    };
    assert_eq!(left, Duration::from_secs(seconds));
}

#[test]
fn time_passes_between_two_events_and_a_change_of_speed_keeps_it() {
    let mut playback = waiting();
    playback.command(at(0), Command::Speed(Speed::Times(1.0))).unwrap();
    playback.command(at(0), Command::Resume).unwrap();
    assert_eq!(playback.arrive(at(0), step(0, 3)), Gate::Open);
    assert_eq!(
        playback.arrive(at(0), event(100, 4)),
        Gate::After(Duration::from_secs(100))
    );
    assert_eq!(state(&playback, 40), ("runs", 40));
    playback.command(at(40), Command::Speed(Speed::Times(10.0))).unwrap();
    assert_eq!(
        playback.arrive(at(40), event(100, 4)),
        Gate::After(Duration::from_secs(6))
    );
    assert_eq!(state(&playback, 42), ("runs", 60));
    assert_eq!(state(&playback, 4000), ("runs", 100), "not beyond the event that waits");
    playback.command(at(42), Command::Pause).unwrap();
    assert_eq!(state(&playback, 4000), ("paused", 60));
    playback.command(at(4000), Command::Speed(Speed::Max)).unwrap();
    assert_eq!(playback.arrive(at(4000), event(100, 4)), Gate::Closed);
    playback.command(at(4000), Command::Resume).unwrap();
    assert_eq!(playback.arrive(at(4000), event(100, 4)), Gate::Open);
}

/// A run that has waited at 60 s with nine events when a user injected a fault.
fn begun_again(command: Command) -> Playback {
    let mut playback = Playback::new(at(0), at(0));
    assert_eq!(playback.place_of_fault(at(0)), Err(CommandError::NotStarted));
    playback.begin(at(0), at(0));
    assert_eq!(playback.arrive(at(0), step(0, 3)), Gate::Closed);
    playback.command(at(0), Command::Event).unwrap();
    assert_eq!(playback.arrive(at(0), step(60, 3)), Gate::Open);
    assert_eq!(playback.arrive(at(0), event(90, 9)), Gate::Closed);
    playback.command(at(0), command).unwrap();
    let place = playback.place_of_fault(at(0)).unwrap();
    let expected = Place {
        at: Duration::from_mins(1),
        recorded: 9,
    };
    assert_eq!(place, expected);
    assert_eq!(playback.replay_to(place), at(60));
    // A second fault before the new run is there has the same place.
    assert_eq!(playback.place_of_fault(at(0)), Ok(expected));
    playback
}

#[rstest]
#[case::of_a_paused_world(Command::Pause, "paused")]
#[case::of_a_world_that_goes_on(Command::Resume, "runs")]
fn a_fault_begins_another_run_which_goes_on_from_the_fault_as_before(#[case] before: Command, #[case] after: &str) {
    let mut playback = begun_again(before);
    assert_eq!((playback.run(), state(&playback, 0).0), (1, "seeks"));
    playback.begin(at(1), at(0));
    // Steps of the scenario do not hold it up again.
    assert_eq!(playback.arrive(at(1), step(0, 3)), Gate::Open);
    assert_eq!(playback.arrive(at(1), event(60, 9)), Gate::Open);
    assert_ne!(playback.arrive(at(1), event(3600, 10)), Gate::Open);
    assert_eq!(state(&playback, 1), (after, 60));
}

#[rstest]
#[case(Command::Pause, "paused")]
#[case(Command::Event, "paused")]
#[case(Command::Resume, "runs")]
#[case(Command::Step, "seeks")]
#[case(Command::End, "seeks")]
fn a_command_during_the_repetition_is_for_the_time_after_it(#[case] command: Command, #[case] after: &str) {
    let mut playback = begun_again(Command::Pause);
    playback.begin(at(1), at(0));
    playback.command(at(1), command).unwrap();
    assert_eq!(playback.arrive(at(1), step(0, 3)), Gate::Open);
    assert_eq!(state(&playback, 1).0, "seeks");
    playback.arrive(at(1), event(60, 10));
    assert_eq!(state(&playback, 1).0, after);
}

#[test]
fn a_fault_of_several_steps_has_begun_after_the_last_one() {
    let mut playback = begun_again(Command::Pause);
    playback.begin(at(1), at(0));
    for recorded in 9..12 {
        let due = Arrival {
            is_after_due_steps: true,
            ..event(60, recorded)
        };
        assert_eq!(playback.arrive(at(1), due), Gate::Open);
    }
    assert_eq!(playback.arrive(at(1), event(60, 12)), Gate::Closed);
}

#[test]
fn after_its_end_a_run_refuses_commands() {
    let mut playback = waiting();
    playback.command(at(1), Command::End).unwrap();
    assert_eq!(playback.arrive(at(1), step(0, 3)), Gate::Open);
    assert_eq!(playback.arrive(at(1), step(7200, 90)), Gate::Open);
    let end = RunEnd {
        passed: false,
        sentence: "Invariant I1 was broken".to_owned(),
    };
    playback.finish(at(7205), end.clone());
    assert_eq!(state(&playback, 9), ("ended", 7205));
    assert_eq!(playback.status(at(9)).end, Some(end));
    assert_eq!(playback.command(at(9), Command::Resume), Err(CommandError::Ended));
    assert_eq!(playback.place_of_fault(at(9)), Err(CommandError::Ended));
}

#[rstest]
#[case(json!({ "action": "pause" }), Command::Pause)]
#[case(json!({ "action": "speed", "speed": 1 }), Command::Speed(Speed::Times(1.0)))]
#[case(json!({ "action": "speed", "speed": 10_000 }), Command::Speed(Speed::Times(10_000.0)))]
#[case(json!({ "action": "speed", "speed": "max" }), Command::Speed(Speed::Max))]
fn a_command_is_an_action(#[case] request: Value, #[case] expected: Command) {
    assert_eq!(Command::of(&serde_json::from_value(request).unwrap()), Ok(expected));
}

#[rstest]
#[case(json!({ "action": "rewind" }), "action: there is no \"rewind\"")]
#[case(json!({ "action": "speed" }), "speed: null is no speed; give a number from 1 to 10000")]
#[case(json!({ "action": "speed", "speed": 0.5 }), "speed: 0.5 is no speed")]
#[case(json!({ "action": "speed", "speed": 10_001 }), "speed: 10001 is no speed")]
#[case(json!({ "action": "speed", "speed": "fast" }), "speed: \"fast\" is no speed")]
#[case(json!({ "action": "pause", "speed": 2 }), "speed: it is for the action \"speed\"")]
fn a_wrong_command_names_the_field(#[case] request: Value, #[case] expected: &str) {
    let request = serde_json::from_value(request).unwrap();
    let message = Command::of(&request).unwrap_err().to_string();
    assert!(message.starts_with(expected), "{message}");
}
