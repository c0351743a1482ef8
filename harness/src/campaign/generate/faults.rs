//! Random faults that a correct controller survives. All end within a time span.
//!
//! Byzantine answers are excluded: a cloud that reports an existing VM as NotFound makes every controller create a
//! second one.

mod api;

use clock::{Seed, Stream};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::seconds;
use scenario::plan::{Disturbance, KubeletFault, Lag, Pause, VmFault};
use scenario::step::{CloudCall, Crash, Fault, KubeletAction, Moment, Process, VmAction, Window};

use super::Life;

/// Approximate number of effects of mcm for each machine; crash points are drawn from this range.
const EFFECTS: u64 = 14;

/// Number of effects of the built-in controllers before a scenario begins: they create the default objects of
/// namespaces.
const EFFECTS_OF_CONTROLLERS: u64 = 5;

/// Crash points of other processes are drawn from this many effects for each machine: renewals of a Lease and reads of
/// VMs are effects, too.
const EFFECTS_OF_OTHERS: u64 = 30;

/// Draws disturbances of one kind.
type Draw = fn(&mut Drawing) -> Vec<Disturbance>;

/// One draw: its random stream and its possible targets.
struct Drawing<'a> {
    stream: Stream,
    number: u64,
    span: u64,
    lives: &'a [Life],
}

/// Every kind, with its probability in a world of size 1 and its draw function.
const KINDS: [(&str, f64, Draw); 8] = [
    ("crash", 0.5, crash),
    ("pause", 0.15, pause),
    ("lag", 0.2, lag),
    ("api", 0.7, api::draw),
    ("cloud error", 0.4, cloud_error),
    ("cloud latency", 0.15, cloud_latency),
    ("vm", 0.15, vm),
    ("kubelet", 0.25, kubelet),
];

/// The faults of a world: for each kind up to `size` draws.
pub(super) fn draw(seed: &Seed, size: u64, span: u64, lives: &[Life]) -> Vec<Disturbance> {
    draw_of(seed, &KINDS.map(|(kind, ..)| kind), size, span, lives)
}

/// The faults of the given kinds.
pub(super) fn draw_of(seed: &Seed, kinds: &[&str], size: u64, span: u64, lives: &[Life]) -> Vec<Disturbance> {
    let mut disturbances = Vec::new();
    for (kind, likely, draw) in KINDS.into_iter().filter(|(kind, ..)| kinds.contains(kind)) {
        for number in 0..size {
            let mut stream = seed.stream(&format!("{kind} {number}"));
            if stream.chance(likely) {
                disturbances.extend(draw(&mut Drawing {
                    stream,
                    number,
                    span,
                    lives,
                }));
            }
        }
    }
    disturbances
}

/// Crashes of the processes beside mcm that the scenario's world has, and pauses and lags of them if the kinds contain them.
pub(super) fn of_other_processes(seed: &Seed, kinds: &[&str], scenario: &Scenario, size: u64) -> Vec<Disturbance> {
    let processes = [Process::HealthChecks, Process::Remediation];
    let present = processes.into_iter().filter(|process| scenario.has_process(*process));
    let draw = |process: Process| {
        let mut stream = seed.stream(&process.to_string());
        let effect = 1 + stream.below(EFFECTS_OF_OTHERS * size);
        match stream.below(5) {
            0 => Some(Disturbance::Crash(Crash {
                process,
                at: Moment::Before,
                effect,
                may_miss: false,
            })),
            1 => Some(Disturbance::Crash(Crash {
                process,
                at: Moment::After,
                effect,
                may_miss: false,
            })),
            2 if kinds.contains(&"pause") => Some(Disturbance::Pause(Pause {
                process,
                effect,
                time: seconds(1 + stream.below(120)),
            })),
            3 if kinds.contains(&"lag") => Some(Disturbance::Lag(Lag {
                process,
                effect,
                by: seconds(1 + stream.below(20)),
                lasts: Some(seconds(10 + stream.below(600))),
            })),
            _ => None,
        }
    };
    present.filter_map(draw).collect()
}

impl Drawing<'_> {
    /// A process, and one of its effects.
    fn process(&mut self) -> (Process, u64) {
        match self.stream.below(10) {
            0 => {
                let effect = 1 + self.stream.below(2 * self.lives.len() as u64);
                (Process::Controllers, EFFECTS_OF_CONTROLLERS + effect)
            }
            1 => (Process::Fakecloud, self.effect()),
            _ => (Process::Mcm, self.effect()),
        }
    }

    fn effect(&mut self) -> u64 {
        1 + self.stream.below(EFFECTS * self.lives.len() as u64)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let index = self.stream.below(from.len() as u64);
        from.get(usize::try_from(index).ok()?).copied()
    }

    fn machine(&mut self) -> Option<(String, u64)> {
        let index = self.stream.below(self.lives.len() as u64);
        let life = self.lives.get(usize::try_from(index).ok()?)?;
        Some((life.name.clone(), life.created))
    }

    /// A machine, a second after its creation, and a later second within the span.
    fn moments(&mut self) -> Option<(String, u64, u64)> {
        let (machine, created) = self.machine()?;
        let at = created + 1 + self.stream.below(self.span - created);
        let again = at + self.stream.below(1 + self.span.saturating_sub(at));
        Some((machine, at, again))
    }
}

fn crash(draw: &mut Drawing) -> Vec<Disturbance> {
    let at = if draw.stream.chance(0.5) {
        Moment::Before
    } else {
        Moment::After
    };
    let (process, effect) = draw.process();
    vec![Disturbance::Crash(Crash {
        process,
        at,
        effect,
        may_miss: false,
    })]
}

fn pause(draw: &mut Drawing) -> Vec<Disturbance> {
    let time = 1 + draw.stream.below(30);
    let (process, effect) = draw.process();
    vec![Disturbance::Pause(Pause {
        process,
        effect,
        time: seconds(time),
    })]
}

fn lag(draw: &mut Drawing) -> Vec<Disturbance> {
    let (by, lasts) = (1 + draw.stream.below(20), 10 + draw.stream.below(draw.span));
    let (process, effect) = draw.process();
    vec![Disturbance::Lag(Lag {
        process,
        effect,
        by: seconds(by),
        lasts: Some(seconds(lasts)),
    })]
}

fn cloud_error(draw: &mut Drawing) -> Vec<Disturbance> {
    const CALLS: [CloudCall; 4] = [
        CloudCall::CreateMachine,
        CloudCall::InitializeMachine,
        CloudCall::DeleteMachine,
        CloudCall::GetMachineStatus,
    ];
    const CODES: [Code; 4] = [Code::Internal, Code::Unavailable, Code::Unknown, Code::DeadlineExceeded];
    let (Some(call), Some(code)) = (draw.pick(&CALLS), draw.pick(&CODES)) else {
        return Vec::new();
    };
    let after_effect = call != CloudCall::GetMachineStatus && draw.stream.chance(0.4);
    let times = 1 + draw.stream.below(3);
    let fault = Fault::of("", call).code(code).times(times);
    let fault = if after_effect { fault.after_commit() } else { fault };
    with_window(draw, fault)
}

fn cloud_latency(draw: &mut Drawing) -> Vec<Disturbance> {
    const CALLS: [CloudCall; 3] = [
        CloudCall::CreateMachine,
        CloudCall::DeleteMachine,
        CloudCall::GetMachineStatus,
    ];
    let Some(call) = draw.pick(&CALLS) else {
        return Vec::new();
    };
    let latency = 1 + draw.stream.below(20);
    with_window(draw, Fault::of("", call).latency(seconds(latency)))
}

/// Names the rule and gives it a window.
fn with_window(draw: &mut Drawing, mut fault: Fault) -> Vec<Disturbance> {
    let from = draw.stream.below(draw.span);
    let until = from + 1 + draw.stream.below(draw.span - from);
    let what = if fault.action.code.is_some() { "error" } else { "slow" };
    fault.name = format!("{what}-{}", draw.number);
    fault.matches.window = Some(Window {
        from: (from > 0).then(|| seconds(from)),
        until: Some(seconds(until)),
    });
    vec![Disturbance::Cloud(Box::new(fault))]
}

/// An action on a VM. A stopped VM is started again; a killed VM stays down.
fn vm(draw: &mut Drawing) -> Vec<Disturbance> {
    let Some((machine, at, again)) = draw.moments() else {
        return Vec::new();
    };
    let fault = |action, at| {
        Disturbance::Vm(VmFault {
            machine: machine.clone(),
            action,
            at: seconds(at),
        })
    };
    match draw.stream.below(4) {
        0 => vec![fault(VmAction::Kill, at)],
        1 => vec![fault(VmAction::Delete, at)],
        2 => vec![fault(VmAction::Reboot, at)],
        _ => vec![fault(VmAction::Stop, at), fault(VmAction::Start, again)],
    }
}

fn kubelet(draw: &mut Drawing) -> Vec<Disturbance> {
    let Some((machine, at, again)) = draw.moments() else {
        return Vec::new();
    };
    [(KubeletAction::Stop, at), (KubeletAction::Start, again)]
        .map(|(action, at)| {
            Disturbance::Kubelet(KubeletFault {
                machine: machine.clone(),
                action,
                at: seconds(at),
            })
        })
        .into()
}
