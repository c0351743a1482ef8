//! Changes by planted defects to the safety controllers.

use std::time::Duration;

use mcm_core::safety::api_health::{ApiHealth, Next};

use super::Safety;
use crate::cache::AnyCache as _;

/// Continues an outage despite a response.
pub(super) fn without_reset(before: ApiHealth, next: Next) -> Next {
    match before {
        ApiHealth::Down { .. } if next.health == ApiHealth::Up => Next { health: before, ..next },
        _ => next,
    }
}

impl Safety {
    /// Waits until some of the caches are filled; depending on the defect, also while the API servers do not respond.
    pub(super) async fn partly_filled(&self) {
        let state = &self.executor().state;
        let incomplete = || {
            if defect!(OrphansCollectedBeforeMachinesAreListed) {
                self.guard().health() != ApiHealth::Up
            } else {
                !state.machines.synced()
            }
        };
        while incomplete() || !state.classes.synced() || !state.secrets.synced() {
            self.executor().clock.sleep(Duration::from_secs(1)).await;
        }
    }
}
