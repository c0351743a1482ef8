//! A kubelet stops for less than the health timeout: the machine is Unknown during that time, and is otherwise
//! unchanged.

use mcm_api::Phase;
use scenario::builder::{
    at_any_time, between, create_machine, health_timeout, history, kubelet, node_grace, phase, seconds, slack,
    vm_count, wait,
};
use scenario::step::KubeletAction;
use scenario::{DurationExpression, Scenario};

use super::joining;

/// How long the machine stays Unknown: half its health timeout, as an expression.
fn pause() -> DurationExpression {
    health_timeout() / 2
}

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "kubelet_pause",
        "A kubelet stops for less than the health timeout: the machine is Running, Unknown, and Running again.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(kubelet("m-1", KubeletAction::Stop))
    .eventually(node_grace() + slack(), phase("m-1", Phase::Unknown))
    .step(wait(pause()))
    .step(kubelet("m-1", KubeletAction::Start))
    .eventually(slack(), phase("m-1", Phase::Running))
    .eventually(
        seconds(1),
        history(
            "m-1",
            [
                at_any_time(Phase::Pending),
                at_any_time(Phase::Running),
                at_any_time(Phase::Unknown),
                between(Phase::Running, pause(), pause() + slack()),
            ],
        ),
    )
    .always(health_timeout() + slack(), phase("m-1", Phase::Running))
    .eventually(seconds(1), vm_count("m-1", 1))
}
