//! What planted defects do in the place of the safety controllers.

use std::time::Duration;

use mcm_core::safety::api_health::{ApiHealth, Next};

use super::Safety;

/// An answer does not end an outage that began.
pub(super) fn without_reset(before: ApiHealth, next: Next) -> Next {
    match before {
        ApiHealth::Down { .. } if next.health == ApiHealth::Up => Next { health: before, ..next },
        _ => next,
    }
}

impl Safety {
    /// Returns when a part of the caches is filled, and, without the API servers, whatever they answer.
    pub(super) async fn partly_filled(&self) {
        let state = &self.executor().state;
        let behind = || {
            if defect!(OrphansCollectedBeforeMachinesAreListed) {
                self.guard().health() != ApiHealth::Up
            } else {
                !state.machines.synced()
            }
        };
        while behind() || !state.classes.synced() || !state.secrets.synced() {
            self.executor().clock.sleep(Duration::from_secs(1)).await;
        }
    }
}
