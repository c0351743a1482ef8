//! A set has more machines than allowed: it is frozen until they are gone.

use scenario::Scenario;
use scenario::builder::{all, field, medium_retry, slack};
use serde_json::{Value, json};

use super::joining;
use crate::regressions::worlds::{at_size, drain_lasts, drains_end, drains_take_long, pool, scale, settled};

pub(super) fn scenario() -> Scenario {
    let usual = pool(2);
    let frozen = |is: Value| field("MachineSet", &usual.set(), "/metadata/labels/freeze", is);
    let extra = ["md-a-7", "md-a-8", "md-a-9"].map(|name| usual.machine(name, usual.class));
    let story = Scenario::new(
        "too_many_machines",
        "A set gets three surplus machines that are deleted slowly: it is frozen, thaws when they are gone, and scales \
         up.",
    );
    settled(story, std::slice::from_ref(&usual))
        .step(drains_take_long())
        .steps(extra)
        .eventually(2 * slack(), all([frozen(json!("True")), drain_lasts()]))
        .step(drains_end())
        .eventually(medium_retry() + 2 * slack(), all([frozen(Value::Null), at_size(2)]))
        .step(scale(3))
        .eventually(joining(), at_size(3))
}
