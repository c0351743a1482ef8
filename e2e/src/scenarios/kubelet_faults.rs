//! Kubelets that are frozen, flap, are slow, or have a wrong clock.

use std::time::Duration;

use mcm_api::{GoDuration, Phase};
use scenario::Scenario;
use scenario::builder::{boot_delay, create_machine, kubelet, node_grace, phase, seconds, slack, wait};
use scenario::step::{KubeletAction, KubeletFaultKind, KubeletFlapping};

/// The scenario.
pub(super) fn scenario() -> Scenario {
    let recovers = |scenario: Scenario| scenario.eventually(node_grace() + slack(), phase("m-1", Phase::Running));
    let scenario = Scenario::new(
        "kubelet_faults",
        "A kubelet is frozen and flaps, its calls are slow and its clock is wrong: the machine recovers from each.",
    )
    .step(create_machine("m-1"))
    .eventually(boot_delay() + slack(), phase("m-1", Phase::Running))
    .step(kubelet("m-1", KubeletAction::Freeze))
    .eventually(node_grace() + slack(), phase("m-1", Phase::Unknown))
    .step(kubelet("m-1", KubeletAction::End(KubeletFaultKind::Outage)));
    let scenario = recovers(scenario)
        .step(kubelet("m-1", KubeletAction::Slow(short())))
        .step(kubelet(
            "m-1",
            KubeletAction::ClockBehind(GoDuration(Duration::from_mins(5))),
        ))
        .step(wait(seconds(10)))
        .step(kubelet("m-1", KubeletAction::End(KubeletFaultKind::Slow)))
        .step(kubelet("m-1", KubeletAction::End(KubeletFaultKind::Clock)))
        .step(kubelet("m-1", KubeletAction::Flap(mostly_down())))
        .eventually(node_grace() + slack(), phase("m-1", Phase::Unknown))
        .step(kubelet("m-1", KubeletAction::End(KubeletFaultKind::Outage)));
    recovers(scenario)
}

fn short() -> GoDuration {
    GoDuration(Duration::from_secs(1))
}

/// Down for nearly the whole cycle, beginning with it.
fn mostly_down() -> KubeletFlapping {
    KubeletFlapping {
        every: GoDuration(Duration::from_mins(10)),
        up_percent: 1,
    }
}
