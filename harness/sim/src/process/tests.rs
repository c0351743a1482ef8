use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use tower::{Layer, ServiceExt};

use super::*;
use crate::{CrashPoint, DisturbanceKind, Side, World, run};

async fn write(gate: &Gate, path: &str) {
    let server = tower::service_fn(|_: Request<()>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
    });
    let request = Request::builder().method("POST").uri(path).body(()).unwrap();
    gate.api().layer(server).oneshot(request).await.unwrap();
}

fn narrative(world: &World) -> Vec<String> {
    let epoch = crate::EPOCH;
    let line = |entry: crate::Entry| format!("{}s {}", entry.at.duration_since(epoch).as_secs(), entry.text);
    world.trace.entries().into_iter().map(line).collect()
}

#[test]
fn a_crashed_process_starts_again_after_its_delay_with_a_fresh_client() {
    let lines = run(1, |world| async move {
        let gate = Gate::new("mcm", world.trace.clone());
        gate.crash_at(CrashPoint {
            effect: 2,
            side: Side::After,
        });
        let process = process("mcm", gate.clone(), || async {
            write(&gate, "/a").await;
            write(&gate, "/b").await;
            "done"
        })
        .restart_delay(Duration::from_secs(10));
        let handle = process.handle();
        assert_eq!(process.run().await, "done");
        assert_eq!((handle.starts(), handle.crashes(), handle.is_running()), (2, 1, false));
        assert_eq!((handle.has_crashed(1), handle.has_crashed(2)), (true, false));
        narrative(&world)
    });
    assert_eq!(
        lines,
        [
            "0s process started (1)",
            "0s POST /a 200",
            "0s POST /b 200",
            "0s mcm: crash after effect 2 (POST /b)",
            "0s process crashed",
            "10s process started (2)",
            "10s POST /a 200",
            "10s POST /b 200",
            "10s process finished",
        ]
    );
}

#[test]
fn a_killed_process_stays_down_until_it_is_restarted() {
    let lines = run(1, |world| async move {
        let gate = Gate::new("mcm", world.trace.clone());
        let process = process("mcm", gate.clone(), || async {
            loop {
                write(&gate, "/tick").await;
                world.clock.sleep(Duration::from_secs(10)).await;
            }
        });
        let handle = process.handle();
        let script = async {
            world.clock.sleep(Duration::from_secs(5)).await;
            handle.kill();
            world.clock.sleep(Duration::from_secs(60)).await;
            assert!(!handle.is_running());
            handle.restart();
            world.clock.sleep(Duration::from_secs(1)).await;
        };
        tokio::select! {
            biased;
            () = process.run() => {}
            () = script => {}
        }
        narrative(&world)
    });
    assert_eq!(
        lines,
        [
            "0s process started (1)",
            "0s POST /tick 200",
            "5s process killed",
            "65s process started (2)",
            "65s POST /tick 200",
        ]
    );
}

#[test]
fn a_kill_at_a_crash_does_not_affect_the_next_incarnation() {
    run(1, |world| async move {
        let gate = Gate::new("mcm", world.trace.clone());
        gate.crash_at(CrashPoint {
            effect: 1,
            side: Side::Before,
        });
        let mut killed = None;
        let supervised = process("mcm", gate.clone(), || async {
            write(&gate, "/a").await;
        });
        let handle = supervised.handle();
        let script = async {
            gate.crashed().await;
            handle.restart();
            killed = Some(world.clock.now());
        };
        futures::future::join(supervised.run(), script).await;
        assert!(killed.is_some());
        assert_eq!(gate.effects(), 2);
    });
}

#[test]
fn a_paused_process_resumes_where_it_stopped() {
    let lines = run(1, |world| async move {
        let gate = Gate::new("mcm", world.trace.clone());
        gate.pause_at(2, Duration::from_secs(30));
        let process = process("mcm", gate.clone(), || async {
            write(&gate, "/a").await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            write(&gate, "/b").await;
            write(&gate, "/c").await;
        });
        process.run().await;
        assert!(gate.has_hit(2, DisturbanceKind::Pause) && !gate.has_hit(1, DisturbanceKind::Pause));
        narrative(&world)
    });
    assert_eq!(
        lines,
        [
            "0s process started (1)",
            "0s POST /a 200",
            "1s mcm: pause from effect 2 for 30s",
            "31s mcm: goes on",
            "31s POST /b 200",
            "31s POST /c 200",
            "31s process finished",
        ]
    );
}

#[test]
fn a_process_killed_during_a_pause_restarts_immediately() {
    let lines = run(1, |world| async move {
        let gate = Gate::new("mcm", world.trace.clone());
        gate.pause_at(1, Duration::from_secs(30));
        let process = process("mcm", gate.clone(), || async { write(&gate, "/a").await });
        let handle = process.handle();
        let killer = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            handle.restart();
        };
        tokio::join!(process.run(), killer);
        narrative(&world)
    });
    assert_eq!(
        lines,
        [
            "0s process started (1)",
            "0s mcm: pause from effect 1 for 30s",
            "5s process killed",
            "5s process started (2)",
            "5s POST /a 200",
            "5s process finished",
        ]
    );
}

#[test]
fn an_output_accepted_by_restart_after_restarts_the_process() {
    let lines = run(1, |world| async move {
        let gate = Gate::new("mcm", world.trace.clone());
        let mut ends = [Err("lost"), Ok("done")].into_iter();
        let process = process("mcm", gate, || std::future::ready(ends.next().unwrap()))
            .restart_delay(Duration::from_secs(10))
            .restart_after(|end: &Result<&str, &str>| end.is_err());
        assert_eq!(process.run().await, Ok("done"));
        narrative(&world)
    });
    assert_eq!(
        lines,
        [
            "0s process started (1)",
            "0s process finished",
            "10s process started (2)",
            "10s process finished",
        ]
    );
}
