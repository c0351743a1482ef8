//! One pass of a health check over many machines.

use std::sync::Arc;

use anyhow::{Context, Result};
use clock::Clock;
use mcm_core::health_check::{NodeState, Settings, Target, View, decide, normalize};
use serde_json::json;

use crate::figures::Figures;
use crate::process::seconds_since;

/// The passes of a measurement.
const PASSES: u32 = 20;

/// Measures a pass over `machines` machines: all healthy, and with one in a hundred unhealthy.
pub fn measure(figures: &mut Figures, machines: u32) -> Result<()> {
    let clock = Clock::wall();
    for (unhealthy, label) in [(0, "all healthy"), (100, "one in a hundred unhealthy")] {
        let view = view(machines, unhealthy)?;
        let policy = normalize(&view.check.spec, "default")
            .ok()
            .context("the policy is not valid")?;
        let (now, from) = ("2026-03-01T12:00:00Z".parse()?, clock.now());
        for _ in 0..PASSES {
            std::hint::black_box(decide(&view, Ok(&policy), &Settings::default(), now));
        }
        let seconds = seconds_since(&clock, from) / f64::from(PASSES);
        let name = format!("a health check of {machines} machines, {label}, one pass");
        figures.add(name, seconds * 1000.0, "ms", None);
    }
    Ok(())
}

/// Machines with their nodes; every `unhealthy`th one has a node that is not Ready; 0: none.
fn view(machines: u32, unhealthy: u32) -> Result<View> {
    let check = json!({
        "metadata": { "name": "workers", "namespace": "default", "generation": 1 },
        "spec": {
            "selector": { "matchLabels": { "name": "pool" } },
            "unhealthyConditions": [
                { "type": "Ready", "status": "Unknown", "timeout": "5m" },
                { "type": "Ready", "status": "False", "timeout": "5m" },
            ],
            "maxUnhealthy": "40%",
        },
    });
    let long_ago = "2026-02-01T00:00:00Z";
    let targets = (0..machines).map(|number| {
        let name = format!("pool-{number:05}");
        let status = if unhealthy > 0 && number % unhealthy == 0 { "Unknown" } else { "True" };
        let ready = json!({ "type": "Ready", "status": status, "lastTransitionTime": long_ago });
        let passed = json!({
            "type": "HealthCheckSucceeded", "status": "True", "reason": "HealthCheckSucceeded", "message": "",
            "lastTransitionTime": long_ago,
        });
        let machine = json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": name, "creationTimestamp": long_ago,
                "labels": { "name": "pool", "node": name },
            },
            "status": { "conditions": [ready, passed], "currentStatus": { "phase": "Running", "lastUpdateTime": long_ago } },
        });
        let node = json!({
            "metadata": { "name": name, "creationTimestamp": long_ago },
            "status": { "conditions": [ready] },
        });
        Ok(Target {
            machine: Arc::new(serde_json::from_value(machine)?),
            node: NodeState::Present(Arc::new(serde_json::from_value(node)?)),
        })
    });
    Ok(View {
        check: serde_json::from_value(check)?,
        targets: targets.collect::<Result<Vec<_>>>()?,
        ..View::default()
    })
}
