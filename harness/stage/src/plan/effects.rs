//! Disturbances at an effect of a process. They are armed at the gate of the process, which records their hits.

use std::time::Duration;

use scenario::plan::{Disturbance, Plan};
use scenario::result::{Effect, EffectKind};
use scenario::step::{Crash, Moment, Process};
use scenario::{Step, Timeouts};
use sim::{CrashPoint, DisturbanceKind, Gate, Side};

/// The delay before the restart of mcm after a crash or, in a disturbed run, after an unexpected end; similar to the
/// delay of a kubelet.
pub(crate) const RESTART_DELAY: Duration = Duration::from_secs(2);

/// The effects that a gate has counted.
pub(crate) fn of_gate(gate: &Gate) -> Vec<Effect> {
    let effects = gate.effect_list().into_iter();
    let effects = effects.map(|effect| Effect {
        number: effect.number,
        incarnation: effect.incarnation,
        kind: match effect.kind {
            sim::EffectKind::ApiWrite => EffectKind::ApiWrite,
            sim::EffectKind::CloudCall => EffectKind::CloudCall,
        },
        description: effect.description,
    });
    effects.collect()
}

/// The crash point of a crash.
pub fn crash_point(crash: &Crash) -> CrashPoint {
    CrashPoint {
        effect: crash.effect,
        side: side_of(crash.at),
    }
}

/// The side of an effect at which a crash happens.
pub fn side_of(moment: Moment) -> Side {
    match moment {
        Moment::Before => Side::Before,
        Moment::After => Side::After,
    }
}

/// Arms all disturbances that hit at an effect; `gate_of` returns the gate of a process.
pub fn arm(disturbances: &[Disturbance], timeouts: &Timeouts, gate_of: impl Fn(Process) -> Gate) {
    for disturbance in disturbances {
        match disturbance {
            Disturbance::Crash(crash) => gate_of(crash.process).crash_at(crash_point(crash)),
            Disturbance::Pause(pause) => gate_of(pause.process).pause_at(pause.effect, pause.time.value(timeouts)),
            Disturbance::Lag(lag) => {
                let lasts = lag.lasts.as_ref().map(|lasts| lasts.value(timeouts));
                let by = lag.by.value(timeouts);
                gate_of(lag.process).lag_at(lag.effect, sim::Lag { by, lasts });
            }
            _ => {}
        }
    }
}

/// The maximum time for which crashes and disturbances keep mcm from its work, beyond the tolerance of the named durations: mcm
/// restarts and waits for the Lease that it held.
pub fn room(plan: &Plan, timeouts: &Timeouts) -> Duration {
    let restart = RESTART_DELAY + timeouts.lease_duration * 2;
    let of_step = |step: &Step| match step {
        Step::Crash(_) | Step::CrashNext(_) => restart,
        _ => Duration::ZERO,
    };
    let of_disturbance = |disturbance: &Disturbance| match disturbance {
        Disturbance::Crash(_) => restart,
        Disturbance::Pause(pause) => pause.time.value(timeouts) + restart,
        Disturbance::Lag(lag) => lag.by.value(timeouts),
        Disturbance::Step(timed) => match &timed.step {
            Step::Pause(pause) => pause.time.value(timeouts) + restart,
            step => of_step(step),
        },
        _ => Duration::ZERO,
    };
    let disturbances: Duration = plan.disturbances.iter().map(of_disturbance).sum();
    // The judge allows for a pause that is a step of the scenario.
    disturbances + plan.scenario.steps.iter().map(of_step).sum::<Duration>()
}

/// Whether a disturbance hits at an effect, so that effects have to be counted.
pub fn any(disturbances: &[Disturbance]) -> bool {
    let at_effect = |disturbance: &Disturbance| match disturbance {
        Disturbance::Crash(_) | Disturbance::Pause(_) | Disturbance::Lag(_) => true,
        Disturbance::Step(timed) => timed.step.is_at_effect(),
        _ => false,
    };
    disturbances.iter().any(at_effect)
}

/// The number of hits of a disturbance; `None` if it does not act at an effect.
pub fn hits(disturbance: &Disturbance, gate_of: impl Fn(Process) -> Option<Gate>) -> Option<u64> {
    let (process, effect, kind) = match disturbance {
        Disturbance::Crash(crash) => (crash.process, crash.effect, DisturbanceKind::Crash),
        Disturbance::Pause(pause) => (pause.process, pause.effect, DisturbanceKind::Pause),
        Disturbance::Lag(lag) => (lag.process, lag.effect, DisturbanceKind::Lag),
        _ => return None,
    };
    Some(u64::from(
        gate_of(process).is_some_and(|gate| gate.has_hit(effect, kind)),
    ))
}
