//! The outage of a zone: at most one machine of its deployment is replaced at a time.

use scenario::Scenario;
use scenario::builder::{all, creation_timeout, fail_zone, health_timeout, node_grace, restore_zone, slack, wait};
use scenario::step::ZoneFailure;

use super::joining;
use crate::regressions::worlds::{Pool, class, pool, settled, status};

const POOLS: [(&str, &str, &str); 2] = [("md-z1", "class-z1", "z1"), ("md-z2", "class-z2", "z2")];

/// That at most one is replaced is an invariant. Which machine of a zone is replaced is arbitrary, so the
/// machines have no names here.
pub(super) fn scenario() -> Scenario {
    let pools = POOLS.map(|(name, class, _)| Pool { name, class, ..pool(3) });
    let served = || all(POOLS.map(|(name, ..)| status(name, "availableReplicas", 3)));
    let story = Scenario::new(
        "zone_outage",
        "A zone is down for longer than the health timeout: machines of its deployment are replaced one at a time, \
         those of the other not at all.",
    )
    .steps(POOLS.map(|(_, name, zone)| class(name, zone)));
    settled(story, &pools[1..])
        .step(pools[0].deployment())
        .eventually(joining(), served())
        .step(fail_zone("z1", ZoneFailure::Compute))
        .step(wait(node_grace() + health_timeout() + 2 * slack()))
        .step(restore_zone("z1"))
        .eventually(creation_timeout() + 3 * joining(), served())
        .eventually(slack(), pools[1].runs())
}
