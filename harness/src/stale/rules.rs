//! The fault rules of a run. Pure.

use std::time::Duration;

use apiserver::faults::{Action, Behind, Match, Pattern, Rule};
use scenario::stale::StaleScenario;

/// The rules that make the controller's view old, for a lag above zero.
pub(super) fn lagging(scenario: &StaleScenario, watches: &[Pattern], lag: Duration) -> Vec<Rule> {
    if lag.is_zero() {
        return Vec::new();
    }
    let lists = scenario.lag.lists.as_deref().unwrap_or(watches);
    let rule = |kind: &str, index: usize, resource: &Pattern, action: Action| Rule {
        matches: Match {
            client: Some(Pattern::new(&scenario.controller.user)),
            resource: Some(resource.clone()),
            ..Match::default()
        },
        ..Rule::new(format!("stale-{kind}-{index}"), action)
    };
    let watches = watches.iter().enumerate();
    let watches = watches.map(|(index, resource)| rule("watch", index, resource, Action::LagWatch { by: lag }));
    let lists = lists.iter().enumerate().map(|(index, resource)| {
        let by = Behind::Duration(lag);
        let action = Action::StaleList { by, consistent: false };
        rule("list", index, resource, action)
    });
    watches.chain(lists).collect()
}

/// The other rules of the scenario.
pub(super) fn others(scenario: &StaleScenario) -> Vec<Rule> {
    let mut rules = scenario.faults.clone();
    for rule in &mut rules {
        let client = &mut rule.matches.client;
        client.get_or_insert_with(|| Pattern::new(&scenario.controller.user));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
name: a
about: b
controller: {user: me}
lag: {watches: [pods, nodes], lists: [nodes]}
faults: [{name: busy, action: {fail: {code: 429}}}, {name: all, match: {client: '*'}, action: {fail: {code: 429}}}]
steps: [{wait: lag}]
";

    #[test]
    fn the_rules_are_those_of_the_controller() {
        let scenario = StaleScenario::from_yaml(TEXT, "text").unwrap();
        let lag = Duration::from_secs(30);
        let rules = lagging(&scenario, &scenario.lag.watches, lag);
        let texts: Vec<String> = rules.iter().map(Rule::to_string).collect();
        assert_eq!(
            texts,
            [
                "stale-watch-0: lagWatch by 30s on pods by me",
                "stale-watch-1: lagWatch by 30s on nodes by me",
                "stale-list-0: staleList by 30s on nodes by me",
            ]
        );
        assert!(rules.iter().all(|rule| rule.check().is_ok()));
        assert_eq!(lagging(&scenario, &scenario.lag.watches, Duration::ZERO), []);
        let clients: Vec<String> = others(&scenario)
            .iter()
            .map(|rule| {
                rule.matches
                    .client
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default()
            })
            .collect();
        assert_eq!(clients, ["me", "*"]);
    }
}
