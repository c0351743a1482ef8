//! R60 `bad-class-burns-rollout`: a template whose nodes can never join caused repeated creations of VMs, and
//! healthy old machines were deleted for them.

use harness::regression::{Confidence, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{all, fail_calls, fault_hits, lift, seconds, slow_call, wait};
use scenario::step::CloudCall;

use super::worlds::{at_size, bad_class, case, class, pool, settled, to_class};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R60",
        name: "bad-class-burns-rollout",
        origin: "karpenter; CAPI#4497",
        group: Group::Rollouts,
        confidence: Confidence::Guess,
        cases: vec![
            case("R60", never_joins(), &["I7", "I9"]),
            case("R60/b", never_created(), &["I9", "I18"]),
        ],
        open: "",
    }
}

fn never_joins() -> Scenario {
    let usual = pool(3);
    let story = story(
        "r60-never-joins",
        "Machines of a new class never join: for six hours every old one stays, and then the change is reverted.",
    )
    .steps(bad_class());
    settled(story, std::slice::from_ref(&usual))
        // One VM every twenty minutes for six hours.
        .step(slow_call("made", CloudCall::CreateMachine, "md-a-*-*", seconds(1)))
        .step(to_class("class-bad"))
        .never(seconds(6 * 3600), fault_hits("made", 20))
        .meanwhile()
        .step(wait(seconds(6 * 3600)))
        .eventually(seconds(1), usual.runs())
        .step(lift("made"))
        .step(to_class("class-a"))
        .eventually(seconds(30 * 60), all([at_size(3), usual.runs()]))
}

/// The cloud rejects each creation for an hour: mcm retries with backoff.
fn never_created() -> Scenario {
    let usual = pool(3);
    let story = story(
        "r60-b-never-made",
        "The cloud rejects each machine of a new class for an hour: mcm retries with backoff, and every old machine \
         stays.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(&usual))
        .step(fail_calls("made", CloudCall::CreateMachine, "md-a-*-*", Code::Internal))
        .step(to_class("class-b"))
        .always(seconds(3600), usual.runs())
        .step(lift("made"))
        .eventually(seconds(1800) + 3 * joining(), at_size(3))
}
