//! The deletion order on a scale-down: machines that cluster-autoscaler selects, and machines with a low
//! priority.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{all, annotate, machine_gone, phase, slack};

use super::joining;
use crate::regressions::worlds::{TIMES, at_size, autoscaler, pool, scale, settled};

pub(super) fn scenarios() -> [Scenario; 2] {
    [named_machines(), lowest_priority_first()]
}

fn named_machines() -> Scenario {
    let story = Scenario::new(
        "named_machines",
        "cluster-autoscaler selects two machines one after the other and lowers the replicas: exactly those two are \
         deleted.",
    );
    settled(story, &[pool(4)])
        .step(autoscaler("md-a-2", TIMES[0], 3))
        .eventually(joining(), all([machine_gone("md-a-2"), at_size(3)]))
        .step(autoscaler("md-a-4", TIMES[1], 2))
        .eventually(joining(), all([machine_gone("md-a-4"), at_size(2)]))
        .eventually(
            slack(),
            all(["md-a-1", "md-a-3"].map(|name| phase(name, Phase::Running))),
        )
}

fn lowest_priority_first() -> Scenario {
    let story = Scenario::new(
        "a_persons_priority",
        "A user gives a machine the priority 1 before a scale-down: it is deleted first.",
    );
    settled(story, &[pool(3)])
        .step(annotate("Machine", "md-a-3", keys::PRIORITY_ANNOTATION, "1"))
        .step(scale(2))
        .eventually(joining(), all([machine_gone("md-a-3"), at_size(2)]))
        .eventually(
            slack(),
            all(["md-a-1", "md-a-2"].map(|name| phase(name, Phase::Running))),
        )
}
