//! A leader whose caches stay empty does nothing, so it ends and leaves the Lease to another process.

use std::time::Duration;

use mcm_core::safety::api_health::ApiHealth;

use super::Safety;
use crate::Error;

/// How long the first lists may take while the API servers respond.
const LIMIT: Duration = Duration::from_secs(120);
/// The time between two checks.
const PERIOD: Duration = Duration::from_secs(10);

impl Safety {
    /// Returns if the caches are not filled although the API servers have responded for two minutes. While a server is
    /// unavailable another process could not fill them either.
    pub(crate) async fn caches_stay_empty(&self) -> Error {
        let state = &self.executor().state;
        let mut waited = Duration::ZERO;
        loop {
            self.executor().clock.sleep(PERIOD).await;
            let kinds = state.unfilled();
            if kinds.is_empty() {
                return std::future::pending().await;
            }
            waited = if self.guard().health() == ApiHealth::Up {
                waited + PERIOD
            } else {
                Duration::ZERO
            };
            if waited >= LIMIT {
                let seconds = waited.as_secs();
                return Error::CachesNotFilled { kinds, seconds };
            }
        }
    }
}
