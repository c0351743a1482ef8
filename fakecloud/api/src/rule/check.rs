//! Semantic checks of a rule, beyond its syntax.

use mcm_api::cloud::Code;

use super::{Action, At, FaultRule, FaultRuleError, Match, Stale, Window};
use crate::{CloudCall, Delay, check_rate};

impl FaultRule {
    /// Checks values and combinations of fields.
    ///
    /// # Errors
    /// The error and the fix.
    pub fn check(&self) -> Result<(), FaultRuleError> {
        self.matches.check()?;
        let action = &self.action;
        let given = action.effects();
        if given.len() > 1 {
            return Err(FaultRuleError::Exclusive(given));
        }
        let effect = given.first().copied().unwrap_or_default();
        let code = self.answered();
        if action.error.is_some() && action.code.is_some() {
            return Err(FaultRuleError::ErrorAndCode);
        }
        let needs_code = action.at == At::AfterCommit || action.partial.is_some() || self.matches.throttle.is_some();
        if needs_code && code == Code::Ok {
            return Err(FaultRuleError::NoError);
        }
        let delayed = action.is_delayed();
        let no_code = delayed || action.stuck || action.lie || action.nameless || action.stale.is_some();
        if no_code && code != Code::Ok {
            return Err(FaultRuleError::NeedsSuccess(effect));
        }
        let call = self.matches.call;
        let changes = matches!(call, Some(CloudCall::CreateMachine | CloudCall::DeleteMachine));
        if action.stuck && !changes {
            return Err(FaultRuleError::NeedsChange(effect));
        }
        if delayed && !changes && call != Some(CloudCall::AttachVolume) {
            return Err(FaultRuleError::NotDelayable);
        }
        if action.partial.is_some_and(|partial| !partial.belongs_to(call)) {
            return Err(FaultRuleError::Partial);
        }
        let names = matches!(call, Some(CloudCall::CreateMachine | CloudCall::GetMachineStatus));
        if action.nameless && !names {
            return Err(FaultRuleError::Nameless);
        }
        let reads = matches!(call, Some(CloudCall::GetMachineStatus | CloudCall::ListMachines));
        if action.stale.is_some() && !reads {
            return Err(FaultRuleError::Stale);
        }
        if matches!(action.stale, Some(Stale::Calls(0)))
            || matches!(action.stale, Some(Stale::By(by)) if by.0.is_zero())
        {
            return Err(FaultRuleError::StaleByNothing);
        }
        let late = action.latency.is_some_and(|latency| latency != Delay::default());
        if code == Code::Ok && !late && given.is_empty() {
            return Err(FaultRuleError::ChangesNothing);
        }
        let without_effect = [
            ("action.latency", late),
            ("action.lostReply", action.lost_reply),
            ("action.lie", action.lie),
        ];
        if call.is_some_and(CloudCall::is_about_volumes)
            && let Some((field, _)) = without_effect.into_iter().find(|(_, given)| *given)
        {
            return Err(FaultRuleError::AttachmentEffect(field));
        }
        Ok(())
    }
}

impl Action {
    /// The effects in the rule, which exclude each other, by their fields.
    fn effects(&self) -> Vec<&'static str> {
        let effects = [
            ("action.at: afterCommit", self.at == At::AfterCommit),
            ("action.lostReply", self.lost_reply),
            ("action.effectDelay", self.is_delayed()),
            ("action.stuck", self.stuck),
            ("action.lie", self.lie),
            ("action.nameless", self.nameless),
            ("action.partial", self.partial.is_some()),
            ("action.stale", self.stale.is_some()),
        ];
        let given = effects.into_iter().filter(|(_, given)| *given);
        given.map(|(name, _)| name).collect()
    }

    fn is_delayed(&self) -> bool {
        self.effect_delay.is_some_and(|delay| !delay.0.is_zero())
    }
}

impl Match {
    fn check(&self) -> Result<(), FaultRuleError> {
        if self.times == Some(0) {
            return Err(FaultRuleError::NeverFires);
        }
        if let Some(probability) = self.probability
            && !(probability > 0.0 && probability <= 1.0)
        {
            return Err(FaultRuleError::Probability(probability));
        }
        if let Some(Window {
            from,
            until: Some(until),
        }) = self.window
            && until <= from.unwrap_or_default()
        {
            return Err(FaultRuleError::Window);
        }
        if let Some(throttle) = self.throttle {
            check_rate(throttle.per_second, throttle.burst)?;
        }
        Ok(())
    }
}
