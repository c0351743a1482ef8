//! Validates rules beyond their syntax; each error states the fix.

use std::time::Duration;

use super::{Action, At, Behind, Match, Rule, Verb};

/// Names are part of URLs and messages.
const NAME_LENGTH: usize = 100;
/// The maximum duration in a rule: later times exceed the range of some clocks.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The reason why a rule is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault rule {rule:?}: {field}: {problem}; {fix}")]
pub struct Invalid {
    /// The rule's name; its position if it has none.
    pub rule: String,
    /// The invalid field, for instance `match.verbs`.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// How to fix it.
    pub fix: String,
}

impl Rule {
    /// Validates what the syntax allows.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), Invalid> {
        let found = name(&self.name)
            .or_else(|| conditions(&self.matches))
            .or_else(|| applicable(&self.matches, &self.action))
            .or_else(|| settings(&self.action));
        match found {
            None => Ok(()),
            Some(Wrong { field, problem, fix }) => Err(Invalid {
                rule: self.name.clone(),
                field: field.to_owned(),
                problem,
                fix,
            }),
        }
    }
}

struct Wrong {
    field: &'static str,
    problem: String,
    fix: String,
}

fn wrong(field: &'static str, problem: impl Into<String>, fix: impl Into<String>) -> Option<Wrong> {
    Some(Wrong {
        field,
        problem: problem.into(),
        fix: fix.into(),
    })
}

fn name(name: &str) -> Option<Wrong> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    if name.is_empty() {
        return wrong("name", "it is empty", "give the rule a descriptive name");
    }
    if name.len() > NAME_LENGTH || !name.chars().all(good) {
        return wrong(
            "name",
            "it is not a name",
            format!("use at most {NAME_LENGTH} letters, digits, '.', '-' and '_'"),
        );
    }
    None
}

fn conditions(matches: &Match) -> Option<Wrong> {
    for (field, pattern) in [
        ("match.client", &matches.client),
        ("match.resource", &matches.resource),
        ("match.namespace", &matches.namespace),
        ("match.object", &matches.object),
    ] {
        if pattern.as_ref().is_some_and(|pattern| pattern.as_str().is_empty()) {
            return wrong(field, "an empty pattern", "leave it out, or write * for anything");
        }
    }
    if let Some(resource) = &matches.resource
        && resource.as_str().chars().any(char::is_uppercase)
    {
        return wrong(
            "match.resource",
            format!("{:?} is a kind, not a resource", resource.as_str()),
            "write the plural in lower case, such as machines or pods/eviction",
        );
    }
    if matches.times == Some(0) {
        return wrong(
            "match.times",
            "with 0 the rule has no hits",
            "leave it out, or make it at least 1",
        );
    }
    if let Some(probability) = matches.probability
        && !(0.0..=1.0).contains(&probability)
    {
        return wrong(
            "match.probability",
            format!("{probability} is not a probability"),
            "write a number from 0 to 1, such as 0.05",
        );
    }
    let window = matches.window?;
    if window.from > LONGEST {
        return wrong(
            "match.window.from",
            "it is too far in the future",
            "write a time within a hundred years",
        );
    }
    let until = window.until?;
    if until > LONGEST {
        return wrong("match.window.until", "it is too far in the future", "leave it out");
    }
    if until <= window.from {
        return wrong(
            "match.window",
            "it ends before it begins",
            "make until later than from; both are times since the server's start",
        );
    }
    None
}

/// Whether the action applies to the requests that the rule matches.
fn applicable(matches: &Match, action: &Action) -> Option<Wrong> {
    if let Action::Partition { .. } = action {
        for (field, given) in [
            ("match.verbs", !matches.verbs.is_empty()),
            ("match.resource", matches.resource.is_some()),
            ("match.namespace", matches.namespace.is_some()),
            ("match.object", matches.object.is_some()),
            ("match.skip", matches.skip > 0),
            ("match.times", matches.times.is_some()),
            ("match.probability", matches.probability.is_some()),
        ] {
            if given {
                return wrong(
                    field,
                    "a partition cuts a client off from everything",
                    "leave it out and set match.window, or use the action drop",
                );
            }
        }
        return None;
    }
    let able = action.verbs();
    let unable: Vec<&str> = matches
        .verbs
        .iter()
        .filter(|verb| !able.contains(verb))
        .map(|verb| verb.word())
        .collect();
    if !unable.is_empty() {
        let what = match action {
            Action::Fail { code, .. } => format!("fail with code {code}"),
            other => other.word().to_owned(),
        };
        let able: Vec<&str> = able.iter().map(|verb| verb.word()).collect();
        return wrong(
            "match.verbs",
            format!("the action {what} does not apply to {}", unable.join(", ")),
            format!("leave verbs out, or choose from {}", able.join(", ")),
        );
    }
    None
}

fn settings(action: &Action) -> Option<Wrong> {
    let nothing = |field| {
        wrong(
            field,
            "with zero the rule changes nothing",
            "write a duration, such as 90s or 250ms",
        )
    };
    let endless = |field| wrong(field, "it never ends", "write a time within a hundred years");
    match action {
        Action::Delay { by, .. } if by.is_zero() => nothing("action.delay.by"),
        Action::Delay { by, .. } if *by > LONGEST => endless("action.delay.by"),
        Action::LagWatch { by } if by.is_zero() => nothing("action.lagWatch.by"),
        Action::LagWatch { by } if *by > LONGEST => endless("action.lagWatch.by"),
        Action::Restart { down, .. } if *down > LONGEST => endless("action.restart.down"),
        Action::StaleList { by, .. } => behind("action.staleList.by", *by),
        Action::StaleGet { by, .. } => behind("action.staleGet.by", *by),
        Action::Fail {
            code,
            at,
            retry_after,
            message,
        } => refusal(*code, *at, *retry_after, message.as_deref()),
        _ => None,
    }
}

fn behind(field: &'static str, by: Behind) -> Option<Wrong> {
    match by {
        Behind::Duration(by) if by.is_zero() || by > LONGEST => {
            wrong(field, "it is not behind", "write {duration: 30s} or {revisions: 5}")
        }
        Behind::Revisions(0) => wrong(field, "it is not behind", "write {duration: 30s} or {revisions: 5}"),
        _ => None,
    }
}

fn refusal(code: u16, at: At, retry_after: Option<Duration>, message: Option<&str>) -> Option<Wrong> {
    if !Action::CODES.contains(&code) {
        let codes: Vec<String> = Action::CODES.iter().map(u16::to_string).collect();
        return wrong(
            "action.fail.code",
            format!("there is no answer {code}"),
            format!("choose from {}", codes.join(", ")),
        );
    }
    if at == At::AfterCommit && code == 410 {
        return wrong(
            "action.fail.at",
            "410 answers reads, which commit nothing",
            "leave it out",
        );
    }
    if let Some(wait) = retry_after {
        if !matches!(code, 429 | 503) {
            return wrong(
                "action.fail.retryAfter",
                format!("no server sends it with {code}"),
                "leave it out, or use code 429 or 503",
            );
        }
        if wait.subsec_nanos() > 0 || wait.as_secs() > u64::from(u32::MAX) {
            return wrong(
                "action.fail.retryAfter",
                "it is sent in whole seconds",
                "write it as 5s or 1m",
            );
        }
    }
    if message.is_some_and(str::is_empty) {
        return wrong("action.fail.message", "it is empty", "leave it out, or write a message");
    }
    None
}

/// Whether the rule matches the verb: it is one of `match.verbs`, or of the action's verbs if that is empty.
pub(super) fn matches_verb(rule: &Rule, verb: Option<Verb>) -> bool {
    let named = &rule.matches.verbs;
    match verb {
        Some(verb) => rule.action.verbs().contains(&verb) && (named.is_empty() || named.contains(&verb)),
        // A request without a verb, for instance with an unknown method, matches a rule without restrictions.
        None => named.is_empty() && rule.action.verbs().len() == Verb::ALL.len(),
    }
}

#[cfg(test)]
mod tests;
