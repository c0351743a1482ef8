//! I22: mcm writes no status that its definition refuses: the old one would stay, and with it what users and other
//! controllers read.
//!
//! The check needs an API server that reports requests.

use scenario::observation::Seen;

use super::Check;
use super::check_context::CheckContext;

/// The HTTP code for an object that violates its definition.
const INVALID: u16 = 422;

#[derive(Debug)]
pub(super) struct ValidStatus;

impl Check for ValidStatus {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        let Seen::Request(request) = &context.observation.what else {
            return None;
        };
        let is_status = request.resource.starts_with("machine") && request.resource.ends_with("/status");
        (is_status && request.code == INVALID).then(|| {
            format!(
                "{} {} of {} is refused as invalid",
                request.verb, request.resource, request.name
            )
        })
    }
}
