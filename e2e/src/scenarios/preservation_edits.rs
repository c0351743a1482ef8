//! Edits during a preservation: of the timeout, and of the expiry of one machine.

use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{
    all, boot_delay, create_machine, field, kubelet, machine_gone, phase, preserve_timeout, seconds, slack,
};
use scenario::step::KubeletAction;
use scenario::step::deferred_target::{DeferredTarget, UserAction};
use scenario::{DurationExpression, Step};
use serde_json::json;

use super::joining;
use super::preservation_steps::long;
use super::preservation_steps::until;
use super::preservation_steps::{failing, forgotten, kept, preserve};
use crate::regressions::worlds::{Pool, at_size, pool, settled, spec};

/// All scenarios about edits.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![timeout_changed(), expiry_edited(), expiry_moved()]
}

fn timeout_changed() -> Scenario {
    let set_timeout = |time: &str| spec(json!({ "template": { "spec": { "machinePreserveTimeout": time } } }));
    let timeout_is = |time: &str| field("Machine", "md-a-2", "/spec/machinePreserveTimeout", time);
    let preserved = |machine: &str| phase(machine, Phase::RunningPreserved);
    let story = Scenario::new(
        "preserve_timeout_changed",
        "The preservation timeout of a pool is lowered and raised: each change applies only to later preservations.",
    );
    settled(story, &[long(pool(2))])
        .step(preserve("Node", "md-a-1", "now"))
        .eventually(slack(), preserved("md-a-1"))
        .throughout(preserved("md-a-1"))
        .step(set_timeout("15s"))
        .eventually(slack(), timeout_is("15s"))
        .step(preserve("Node", "md-a-2", "now"))
        .eventually(slack(), preserved("md-a-2"))
        .step(set_timeout("24h0m0s"))
        .eventually(slack(), all([timeout_is("24h0m0s"), preserved("md-a-2")]))
        .eventually(seconds(15) + slack(), forgotten("md-a-2"))
        .step(preserve("Node", "md-a-2", "now"))
        .eventually(slack(), preserved("md-a-2"))
        .always(seconds(15) + slack(), preserved("md-a-2"))
}

fn expiry_edited() -> Scenario {
    Scenario::new(
        "preserve_expiry_edited",
        "Edits of the expiry take effect immediately, both to the latest possible time and to a time in the past.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(preserve("Machine", "m-1", "now"))
    .eventually(slack(), phase("m-1", Phase::RunningPreserved))
    .step(until("m-1", "9999-12-31T23:59:59Z"))
    .always(preserve_timeout() + 2 * slack(), phase("m-1", Phase::RunningPreserved))
    .step(until("m-1", "2001-01-01T00:00:00Z"))
    .eventually(slack(), forgotten("m-1"))
}

/// An operator sets the expiry of a machine, relative to now.
fn ends_in(machine: &str, time: DurationExpression) -> Step {
    Step::Deferred(DeferredTarget {
        called: machine.to_owned(),
        among: machine.to_owned(),
        nth: 0,
        user_action: UserAction::Expire(time),
        may_miss: false,
    })
}

/// The preservation would last for a day. The first edit would end it before the second edit.
fn expiry_moved() -> Scenario {
    let usual = long(Pool { maximum: 1, ..pool(2) });
    let story = Scenario::new(
        "preserve_expiry_moved",
        "The expiry of a failed machine is moved earlier, and then later: the machine is replaced at that time and not \
         before.",
    );
    settled(story, &[usual])
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(failing() + slack(), kept("md-a-1"))
        .step(ends_in("md-a-1", 2 * slack()))
        .always(slack(), kept("md-a-1"))
        .step(ends_in("md-a-1", 3 * slack()))
        .always(3 * slack() - seconds(3), kept("md-a-1"))
        .eventually(2 * slack() + boot_delay(), machine_gone("md-a-1"))
        .eventually(joining(), at_size(2))
}
