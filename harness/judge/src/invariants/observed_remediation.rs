//! I24: a health check never acts on what it has not observed since its last connection. After mcm was cut off from an API
//! server for longer than the timeout, nothing is requested within the grace.

use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;

use super::Check;
use super::check_context::CheckContext;
use super::remediation_budget::requested;
use crate::object::{after, annotation, name};

#[derive(Debug, Default)]
pub(super) struct ObservedRemediation {
    /// Since when mcm is cut off.
    cut: Option<Timestamp>,
    /// The end of the last long outage.
    ended: Option<Timestamp>,
}

impl Check for ObservedRemediation {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        let now = context.at();
        match (self.cut, context.rules.away.values().min()) {
            (None, Some(since)) => self.cut = Some(*since),
            (Some(since), None) => {
                self.cut = None;
                if now >= after(since, context.rules.timeouts.api_timeout) {
                    self.ended = Some(now);
                }
            }
            _ => {}
        }
        let machine = requested(context)?;
        let by_user = [
            keys::REMEDIATE_MACHINE_ANNOTATION,
            keys::CAPI_REMEDIATE_MACHINE_ANNOTATION,
        ];
        if by_user
            .iter()
            .any(|key| annotation(machine, key).is_some_and(|value| value != "false"))
        {
            return None;
        }
        let ended = self.ended?;
        let grace = context.rules.timeouts.slack.saturating_sub(Duration::from_secs(1));
        (now < after(ended, grace)).then(|| {
            format!(
                "the remediation of machine {} was requested at {now}, although an outage ended only at {ended}",
                name(machine)
            )
        })
    }
}
