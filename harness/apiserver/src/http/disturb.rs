//! Performs the actions of fault rules on requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Response;

use super::body::decode;
use super::{AUDIT_ID, Arrival, Body, Route, error_response, render, watch_response};
use crate::authorization::Action as Wanted;
use crate::faults::{Action, At, Facts, Freshness, Hit, Passage, Verb};
use crate::inner::Inner;
use crate::life::{Disconnected, broken};
use crate::observe::FaultRecord;
use crate::status::ApiError;

impl Inner {
    /// Handles a request while there are fault rules or the server is down.
    pub(super) async fn handle_with_faults(
        self: &Arc<Self>,
        arrival: &Arrival,
    ) -> Result<Response<Body>, Disconnected> {
        let life = self.life.follow();
        let facts = arrival.facts();
        tokio::select! {
            biased;
            () = broken(life) => Err(Disconnected::new()),
            response = self.apply_faults(arrival, &facts) => response,
        }
    }

    async fn apply_faults(self: &Arc<Self>, arrival: &Arrival, facts: &Facts) -> Result<Response<Body>, Disconnected> {
        let mut seen = BTreeSet::new();
        self.pass(facts, &mut seen).await?;
        let hits = self.faults.decide(facts, self.registry.clock().now());
        if hits.is_empty() {
            return Ok(self.respond(arrival, None).await);
        }
        let mut refusal = None;
        let mut stale = None;
        for hit in hits.iter().filter(|hit| hit.is_before()) {
            self.report(hit, facts);
            match &hit.action {
                Action::Delay { by, .. } => self.registry.clock().sleep(*by).await,
                Action::StaleList { by, .. } | Action::StaleGet { by, .. } => {
                    stale = Some(self.faults.revision_behind(*by));
                }
                Action::Compact { behind_only } => self.discard_history(*behind_only),
                Action::Fail { .. } => refusal = Some(self.refusal(&hit.action, facts)),
                ending => return Err(self.end(ending)),
            }
        }
        let mut response = match refusal {
            Some(error) => self.refuse(arrival, facts, &error),
            None => self.respond(arrival, stale).await,
        };
        for hit in hits.iter().filter(|hit| !hit.is_before()) {
            self.report(hit, facts);
            match &hit.action {
                Action::Delay { by, .. } => self.registry.clock().sleep(*by).await,
                Action::Fail { .. } => {
                    let refusal = error_response(&self.refusal(&hit.action, facts), arrival.pretty, arrival.encoding);
                    let replaced = std::mem::replace(&mut response, refusal);
                    if let Some(id) = replaced.headers().get(&AUDIT_ID) {
                        response.headers_mut().insert(AUDIT_ID, id.clone());
                    }
                    self.add_headers(&arrival.parts.headers, response.headers_mut());
                }
                ending => return Err(self.end(ending)),
            }
        }
        self.pass(facts, &mut seen).await?;
        Ok(response)
    }

    /// Waits until no partition blocks the client.
    async fn pass(&self, facts: &Facts, seen: &mut BTreeSet<u64>) -> Result<(), Disconnected> {
        let mut life = self.life.follow();
        loop {
            life.mark_unchanged();
            let (passage, hits) = self.faults.passage(facts, self.registry.clock().now(), seen);
            for hit in &hits {
                self.report(hit, facts);
            }
            match passage {
                Passage::Open => return Ok(()),
                Passage::Refused => return Err(Disconnected::new()),
                Passage::Blocked { until: None } => {
                    // The sender lives as long as the server.
                    let _ = life.changed().await;
                }
                Passage::Blocked { until: Some(until) } => {
                    tokio::select! {
                        biased;
                        _ = life.changed() => {}
                        () = self.registry.clock().sleep_until(until) => {}
                    }
                }
            }
        }
    }

    /// Breaks the connection of a request, or all connections.
    fn end(&self, action: &Action) -> Disconnected {
        if let Action::Restart { keep_history, down, .. } = action {
            if !keep_history {
                self.registry.store().compact();
            }
            self.faults.restart(*down, self.registry.clock().now());
        }
        Disconnected::new()
    }

    /// Discards all history.
    pub(crate) fn discard_history(&self, behind_only: bool) {
        self.registry.store().compact();
        if !behind_only {
            self.life.expire_watches();
        }
    }

    /// Reports a hit to the observer.
    pub(super) fn report(&self, hit: &Hit, facts: &Facts) {
        tracing::debug!(rule = hit.rule, action = %hit.action, %facts, "a fault rule has a hit");
        if let Some(observer) = &self.observer {
            observer.fault(&FaultRecord {
                rule: &hit.rule,
                action: &hit.action,
                class: hit.class,
                facts,
            });
        }
    }

    /// Responds with an error in place of the server, with the usual headers.
    fn refuse(&self, arrival: &Arrival, facts: &Facts, error: &ApiError) -> Response<Body> {
        let mut response = if error.code == 410 && facts.verb == Some(Verb::Watch) {
            watch_response(
                arrival.encoding,
                Body::whole(render::error_event(error, arrival.encoding)),
            )
        } else {
            error_response(error, arrival.pretty, arrival.encoding)
        };
        self.finish(arrival, &mut response);
        response
    }

    /// The error of a Kubernetes API server for the code of an [`Action::Fail`].
    fn refusal(&self, action: &Action, facts: &Facts) -> ApiError {
        let Action::Fail {
            code,
            retry_after,
            message,
            ..
        } = action
        else {
            return ApiError::internal("a fault rule without a refusal rejected a request");
        };
        let qualified = match facts.group.as_str() {
            "" => facts.resource.clone(),
            group => format!("{}.{group}", facts.resource),
        };
        let mut error = match code {
            401 => ApiError::new(401, "Unauthorized", "Unauthorized"),
            403 => facts.wanted().refusal(&facts.client, ""),
            409 => ApiError::new(
                409,
                "Conflict",
                format!(
                    "Operation cannot be fulfilled on {qualified} {:?}: the object has been modified; please apply \
                     your changes to the latest version and try again",
                    facts.object
                ),
            )
            .of(&facts.group, &facts.resource, &facts.object),
            410 => ApiError::expired(format!(
                "too old resource version: the oldest that is left is {}",
                self.registry.store().revision()
            )),
            413 => ApiError::new(
                413,
                "RequestEntityTooLarge",
                "Request entity too large: limit is 3145728",
            ),
            429 => ApiError::new(
                429,
                "TooManyRequests",
                "the server has received too many requests and has asked us to try again later",
            ),
            503 => ApiError::new(
                503,
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            504 => ApiError::new(
                504,
                "Timeout",
                "Timeout: request did not complete within the allotted timeout",
            ),
            _ => ApiError::internal("etcdserver: request timed out"),
        };
        if let Some(message) = message {
            error.message.clone_from(message);
        }
        let wait = match (code, retry_after) {
            (_, Some(wait)) => u32::try_from(wait.as_secs()).ok(),
            (429, None) => Some(1),
            _ => None,
        };
        match wait {
            Some(seconds) => error.retry_after(seconds),
            None => error,
        }
    }
}

impl Hit {
    /// Whether the action happens before the request is handled.
    fn is_before(&self) -> bool {
        match self.action {
            Action::Delay { at, .. } | Action::Drop { at } | Action::Fail { at, .. } | Action::Restart { at, .. } => {
                at == At::BeforeCommit
            }
            _ => true,
        }
    }
}

impl Facts {
    /// The request in the terms of authorization.
    fn wanted(&self) -> Wanted {
        if self.resource.is_empty() {
            return Wanted::Path {
                verb: "get".to_owned(),
                path: self.path.clone(),
            };
        }
        Wanted::Resource(crate::authorization::ResourceAction {
            verb: self.verb.map(Verb::word).unwrap_or_default().to_owned(),
            group: self.group.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name: self.object.clone(),
        })
    }
}

impl Arrival {
    /// The facts of the request for fault rules.
    pub(super) fn facts(&self) -> Facts {
        let mut facts = Facts {
            client: self.client.clone(),
            agent: self.agent().to_owned(),
            verb: Verb::of(self.verb),
            path: self.parts.uri.path().to_owned(),
            freshness: self.freshness(),
            ..Facts::default()
        };
        if let Wanted::Resource(wanted) = &self.action {
            facts.group.clone_from(&wanted.group);
            facts.resource.clone_from(&wanted.resource);
            facts.subresource.clone_from(&wanted.subresource);
            facts.namespace.clone_from(&wanted.namespace);
            facts.object.clone_from(&wanted.name);
        }
        if facts.object.is_empty() && facts.verb == Some(Verb::Create) {
            facts.object = self.created_name();
        }
        facts
    }

    /// The name or `generateName` of the object in the body.
    fn created_name(&self) -> String {
        let Ok(object) = decode(&self.parts.headers, &self.body, false, None) else {
            return String::new();
        };
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().filter(|name| !name.is_empty());
        name.or_else(|| metadata["generateName"].as_str())
            .unwrap_or_default()
            .to_owned()
    }

    fn freshness(&self) -> Freshness {
        if !matches!(self.route, Route::Resource(_)) {
            return Freshness::Newest;
        }
        let revision = self.query.get("resourceVersion").and_then(|text| text.parse().ok());
        let limited = self.query.get("limit").is_some_and(|limit| limit != "0");
        let matching = self.query.get("resourceVersionMatch");
        match (Verb::of(self.verb), revision) {
            (Some(Verb::List), _) if self.query.get("continue").is_some() => Freshness::Exact,
            (Some(Verb::List), Some(_)) if matching == Some("Exact") => Freshness::Exact,
            (Some(Verb::List), Some(1..)) if limited && matching.is_none() => Freshness::Exact,
            (Some(Verb::List | Verb::Get | Verb::Watch), Some(revision)) => Freshness::NotOlderThan(revision),
            _ => Freshness::Newest,
        }
    }
}
