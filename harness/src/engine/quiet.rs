//! API faults as steps, the state of disturbances, and the quiet end of a scenario.

use std::time::Duration;

use apiserver::faults::{Action, Class, Pattern, Rule};
use judge::Failure;
use judge::invariants::vms_without_machine;
use scenario::observation::{Observation, Quiet, Seen};
use scenario::step::{ApiFault, Client, QuietEnd};
use stage::deploy::FAKECLOUD_ACCOUNT;
use stage::{Stage, leader};

use super::action_error::ActionError;
use super::{Engine, secrets};

/// Maximum duration of an orphan collection with production timeouts: its period, and the time for listing and
/// deleting.
const COLLECTION: Duration = Duration::from_mins(30 + 12);
/// Duration of the quiet period with production timeouts.
const SILENCE: Duration = Duration::from_hours(2);
/// The production health timeout.
const HEALTH: Duration = Duration::from_mins(10);

/// Whether a rule makes all requests for machines or nodes fail, or all requests.
fn makes_unreachable(rule: &Rule) -> bool {
    let matches = &rule.matches;
    let all = matches.verbs.is_empty() && matches.object.is_none() && matches.probability.is_none();
    let always = matches.times.is_none() && matches.skip == 0 && matches.window.is_none();
    let is_probed = |resource: &Pattern| ["machines", "nodes"].contains(&resource.as_str());
    let fatal = matches!(rule.action, Action::Fail { code: 500.., .. } | Action::Partition { .. });
    fatal && all && always && matches.resource.as_ref().is_none_or(is_probed)
}

/// Whether a rule may affect mcm.
fn affects_mcm(rule: &Rule) -> bool {
    let client = rule.matches.client.as_ref();
    client.is_none_or(|client| !client.as_str().ends_with(FAKECLOUD_ACCOUNT))
}

impl<S: Stage> Engine<'_, S> {
    /// Adds a rule to the API server.
    pub(super) async fn add_api_fault(&mut self, fault: &ApiFault) -> Result<(), ActionError> {
        let faults = self.stage.api_faults().ok_or(ActionError::NoApiFaults)?;
        let mut rule = fault.rule.clone();
        let client = match fault.by {
            None => None,
            Some(Client::Mcm) => Some(self.stage.agent_of_mcm(None)?),
            Some(Client::Leader) => {
                let holder = leader(&self.stage.client(), self.stage.namespace(), &self.clock).await?;
                Some(self.stage.agent_of_mcm(Some(&holder))?)
            }
        };
        if let Some(client) = client {
            rule.matches.client = Some(Pattern::new(client));
        }
        if rule.class() == Class::Byzantine {
            self.invariants.rules.byzantine.insert(rule.name.clone());
        }
        if makes_unreachable(&rule) && affects_mcm(&rule) {
            self.invariants.rules.away.insert(rule.name.clone(), self.clock.now());
        }
        Ok(faults.add(rule)?)
    }

    /// Removes a rule from the API server.
    pub(super) fn lift_api_fault(&mut self, rule: &str) -> Result<(), ActionError> {
        self.count_api_faults();
        let faults = self.stage.api_faults().ok_or(ActionError::NoApiFaults)?;
        let removed = faults.remove(rule);
        self.invariants.rules.away.remove(rule);
        removed
            .map(drop)
            .ok_or_else(|| ActionError::NoRule { rule: rule.to_owned() })
    }

    /// Copies the hits of API server rules into the world.
    pub(super) fn count_api_faults(&mut self) {
        let Some(faults) = self.stage.api_faults() else { return };
        for status in faults.list() {
            self.world.faults.insert(status.rule.name, status.hits);
        }
        let now = self.clock.now();
        self.recording
            .add(|recorder| recorder.rule_hits(now, &self.world.faults));
    }

    /// Updates since when no disturbance affects the controller.
    pub(super) fn update_undisturbed_since(&mut self) {
        let undisturbed = self.disturbances.is_empty(&self.world.faults) && !self.stage.is_disturbed();
        let since = &mut self.invariants.rules.undisturbed_since;
        match (undisturbed, since.is_some()) {
            (true, false) => *since = Some(self.clock.now()),
            (false, true) => *since = None,
            _ => {}
        }
    }

    /// Removes all faults, lets the world settle, and then checks that no object is written any more.
    pub(super) async fn quiet_end(&mut self, quiet: &QuietEnd) -> Result<(), Failure> {
        self.count_api_faults();
        if let Some(faults) = self.stage.api_faults() {
            faults.clear();
        }
        let lifted = self.stage.cloud().lift_all().await;
        let lifted = lifted.map_err(|error| self.failed(error))?;
        self.count_cloud_hits(lifted);
        self.disturbances.clear_rules();
        let health = self.stage.timeouts().health;
        let scaled = |time: Duration| time.min(time.mul_f64(health.as_secs_f64() / HEALTH.as_secs_f64()));
        self.quiet(Quiet::Began).await?;
        self.let_pass(quiet.settles.value(self.stage.timeouts()) + scaled(COLLECTION))
            .await?;
        // A period deletes at least one orphan VM.
        for _ in 0..vms_without_machine(&self.world).count() {
            if vms_without_machine(&self.world).next().is_some() {
                self.let_pass(self.stage.timeouts().orphan_period).await?;
            }
        }
        let secrets = secrets::secrets(&self.stage.clusters(), self.stage.namespace()).await;
        let secrets = secrets.map_err(|error| self.failed(error))?;
        let tokens = secrets
            .get(secrets::TOKENS)
            .and_then(|count| count.parse().ok())
            .unwrap_or_default();
        let parts = self.stage.cloud().lost_parts().await;
        let parts = parts.map_err(|error| self.failed(error))?;
        self.quiet(Quiet::Silent { tokens, parts }).await?;
        self.let_pass(scaled(SILENCE)).await?;
        self.quiet(Quiet::Over).await
    }

    async fn let_pass(&mut self, time: Duration) -> Result<(), Failure> {
        let deadline = self.later(time);
        self.watch_until(|_| false, Some(deadline)).await
    }

    async fn quiet(&mut self, quiet: Quiet) -> Result<(), Failure> {
        let at = self.clock.now();
        self.absorb(Observation {
            at,
            what: Seen::Quiet(quiet),
        })
        .await
    }
}
