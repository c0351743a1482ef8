//! Admission of pods by a kubelet.
//!
//! As in upstream, a kubelet rejects pods that exceed the Node's pod count, CPU or memory: such pods were bound without
//! the scheduler, or by two schedulers. Taints and affinity are left to the scheduler and to taint eviction. A pod that
//! was already running when the kubelet found it is admitted.

use std::time::Duration;

use jiff::Timestamp;

use super::facts::PodPhase;
use super::fleet::{Fleet, Kubelet};
use super::plan::PodPlan;
use super::pod::lifecycle::PodRun;
use super::quantity::millis;
use super::tracked::Tracked;

/// The run of a pod that its kubelet accepts or rejects.
pub(super) fn admit(fleet: &Fleet, kubelet: &Kubelet, pod: &Tracked, plan: &PodPlan, now: Timestamp) -> PodRun {
    let mut run = found(pod, plan, now, fleet.settings.pod_start_delay);
    if pod.facts.phase != PodPhase::Pending || pod.facts.deletion.is_some() || pod.facts.mirror {
        return run;
    }
    let taken = fleet.pods.of(&kubelet.host.node).filter_map(Tracked::requested);
    let (count, cpu, memory) = taken.fold((0u128, 0u128, 0u128), |sum, (cpu, memory)| {
        (sum.0 + 1, sum.1 + cpu, sum.2 + memory)
    });
    let needs = [
        ("pods", 1000, count * 1000),
        ("cpu", plan.cpu, cpu),
        ("memory", plan.memory, memory),
    ];
    for (resource, requested, used) in needs {
        let capacity = kubelet.host.capacity.get(resource).and_then(|text| millis(text));
        let Some(capacity) = capacity.filter(|capacity| requested > 0 && used + requested > *capacity) else {
            continue;
        };
        // CPU is shown in thousandths, other resources in units.
        let unit = if resource == "cpu" { 1 } else { 1000 };
        let message = format!(
            "Pod was rejected: Node didn't have enough resource: {resource}, requested: {}, used: {}, capacity: {}",
            requested / unit,
            used / unit,
            capacity / unit
        );
        run.refuse(&format!("OutOf{resource}"), message);
        break;
    }
    run
}

/// The run of a pod that its kubelet finds.
fn found(pod: &Tracked, plan: &PodPlan, now: Timestamp, start_delay: Duration) -> PodRun {
    match pod.facts.phase {
        PodPhase::Running(_) => PodRun::found(plan, &pod.facts.seen, now),
        PodPhase::Pending => PodRun::new(plan, now, start_delay),
        PodPhase::Finished => {
            let mut run = PodRun::new(plan, now, start_delay);
            run.refuse("", String::new());
            run
        }
    }
}
