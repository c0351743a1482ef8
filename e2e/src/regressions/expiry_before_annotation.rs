//! R76 `expiry-before-annotation`: a failed machine was deleted between the two writes of its preservation, or
//! because its node was not found.

use std::time::Duration;

use harness::regression::{Confidence, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::api_faults::{Action, Verb};
use scenario::builder::{
    all, annotate, creation_timeout, fault_hits, kubelet, machine_gone, phase, preserve_timeout, seconds, slack,
    unchanged, vm_count, wait,
};
use scenario::step::KubeletAction;

use super::story;
use super::worlds::{Pool, api_fails, bad_class, case, failing, kept, pool, settled};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R76",
        name: "expiry-before-annotation",
        origin: "MCM PR#1147",
        group: Group::Preservation,
        confidence: Confidence::Cause,
        cases: vec![
            case("R76", automatically(), &["I5"]),
            case("R76/b", without_node(), &["I5"]),
            case("R76/lag", late_watch(), &[]),
            case("R76/now", requested_late("r76-now", "now"), &[]),
            case("R76/when-failed", requested_late("r76-when-failed", "when-failed"), &[]),
        ],
        open: "a crash at each write: `drydock crash preservation` does that",
    }
}

/// A pool with a maximum of one preserved machine.
fn of_one(name: &str, about: &str) -> Scenario {
    let pool = Pool { maximum: 1, ..pool(3) };
    settled(story(name, about), &[pool])
}

fn automatically() -> Scenario {
    of_one(
        "r76-automatically",
        "A machine fails and is preserved: from that write on its VM exists, until an expiry that counts from the \
         write.",
    )
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(failing(), kept("md-a-1"))
    .always(
        preserve_timeout() - slack(),
        unchanged("Machine", "md-a-1", "/metadata/uid"),
    )
    .eventually(3 * slack(), machine_gone("md-a-1"))
}

/// Watch events of machines arrive five seconds late when a machine fails.
fn late_watch() -> Scenario {
    let lag = Action::LagWatch {
        by: Duration::from_secs(5),
    };
    of_one(
        "r76-late-watch",
        "Watch events of machines arrive five seconds late while a failed machine is preserved: its VM exists for the \
         next hour.",
    )
    .step(api_fails(&[Verb::Watch], "machines", lag))
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(failing(), kept("md-a-1"))
    .always(seconds(3600), all([kept("md-a-1"), fault_hits("api", 1)]))
}

/// A user requests the preservation a second before the machine fails.
fn requested_late(name: &str, value: &str) -> Scenario {
    settled(
        story(
            name,
            "A user requests a preservation a second before the machine fails: the machine is preserved.",
        ),
        &[pool(3)],
    )
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(failing(), phase("md-a-1", Phase::Unknown))
    .step(wait(seconds(10 * 60 - 2)))
    .step(annotate("Node", "md-a-1", keys::PRESERVE_ANNOTATION, value))
    .eventually(slack(), kept("md-a-1"))
    .always(slack(), kept("md-a-1"))
}

/// The kubelet is rejected, so the machine fails without ever having had a node.
fn without_node() -> Scenario {
    let one = Pool {
        class: "class-bad",
        ..pool(1)
    };
    story(
        "r76-b-without-node",
        "A machine that never had a node fails, and its annotation requests preservation: its VM exists until its \
         expiry.",
    )
    .steps(bad_class())
    .step(one.machine("md-a-1", one.class))
    .step(one.deployment())
    .step(annotate("Machine", "md-a-1", keys::PRESERVE_ANNOTATION, "when-failed"))
    .eventually(
        creation_timeout() + 2 * slack(),
        all([phase("md-a-1", Phase::FailedPreserved), vm_count("md-a-1", 1)]),
    )
    .always(preserve_timeout() - 2 * slack(), vm_count("md-a-1", 1))
}
