//! Checks whether the API servers respond, and resets machines after an outage.

use std::convert::Infallible;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use mcm_api::Machine;
use mcm_core::event::EventType;
use mcm_core::safety::api_health::{ApiHealth, RESET_TEXT, begun_anew};

use super::Safety;
use crate::error::{brief, is_not_found};

/// The name of the requested object, as in upstream. NotFound is a valid response.
const ABSENT_NAME: &str = "dummy_name";
/// The timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

impl Safety {
    /// Checks the API servers periodically.
    pub(super) async fn probe(&self) -> Infallible {
        let clock = &self.executor().clock;
        loop {
            let started = self.now();
            let problem = if self.is_certainly_available() {
                None
            } else {
                self.check().await
            };
            let before = self.guard().health();
            let next = before.after(problem.is_none(), started, self.now(), &self.settings.api);
            let next = if defect!(PastOutageCountsAsBegun) {
                super::defects::without_reset(before, next)
            } else {
                next
            };
            self.guard().set(next.health);
            self.report(before, next.health, problem.as_deref());
            self.controllers.observe_connection();
            if before != ApiHealth::Up && next.health == ApiHealth::Up {
                // Work that waits for the API servers need not wait for its period.
                self.guard().suspect();
            }
            let mut wake = next.wake;
            if next.thaw && self.thaw().await {
                self.guard().set(ApiHealth::Up);
                self.report(next.health, ApiHealth::Up, None);
                self.guard().thaw();
                self.controllers.observe_connection();
                self.guard().suspect();
                wake = self.settings.api.period;
            }
            clock.sleep(wake).await;
        }
    }

    fn report(&self, before: ApiHealth, after: ApiHealth, problem: Option<&str>) {
        self.executor().metrics.set_frozen(after.is_frozen());
        match (before.is_frozen(), after.is_frozen()) {
            (false, true) => tracing::warn!(
                problem,
                seconds = self.settings.api.timeout.as_secs(),
                "an API server does not respond: frozen; no VM is created or deleted until both respond"
            ),
            (true, false) => tracing::info!("both API servers respond again: no longer frozen"),
            _ => {
                if let Some(problem) = problem {
                    tracing::info!(problem, "an API server does not respond");
                }
            }
        }
    }

    /// Whether the API servers certainly respond, in a simulated world.
    fn is_certainly_available(&self) -> bool {
        let executor = self.executor();
        executor.clock.has_stable_connections()
            && self.guard().health() == ApiHealth::Up
            && executor.tenure.renews_by_pulse()
    }

    /// The problem of an API server; `None`: both respond.
    async fn check(&self) -> Option<String> {
        let executor = self.executor();
        let machines: Api<Machine> = Api::namespaced(executor.control.clone(), &executor.state.namespace);
        let control = Box::pin(async move { machines.get_metadata(ABSENT_NAME).await.map(|_| ()) });
        if let Some(problem) = self.check_one("control", control).await {
            return Some(problem);
        }
        let nodes: Api<Node> = Api::all(executor.target.clone()?);
        let target = Box::pin(async move { nodes.get_metadata(ABSENT_NAME).await.map(|_| ()) });
        self.check_one("target", target).await
    }

    async fn check_one(&self, cluster: &str, request: BoxFuture<'_, kube::Result<()>>) -> Option<String> {
        let limit = RESPONSE_TIMEOUT.min(self.settings.api.timeout);
        match tokio::time::timeout(limit, request).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) if is_not_found(&error) => None,
            Ok(Err(error)) => Some(format!("the {cluster} cluster: {}", brief(&error))),
            Err(_) => Some(format!("the {cluster} cluster: no response within {limit:?}")),
        }
    }

    /// Resets the machines that became Unknown during the freeze; returns whether all succeeded.
    async fn thaw(&self) -> bool {
        let executor = self.executor();
        let api: Api<Machine> = Api::namespaced(executor.control.clone(), &executor.state.namespace);
        for known in executor.state.machines.all() {
            if !executor.tenure.holds(self.now()) {
                return false;
            }
            if begun_anew(&known, self.now()).is_none() {
                continue;
            }
            let name = known.name_any();
            let reset = async {
                let Some(machine) = api.get_opt(&name).await? else {
                    return Ok(());
                };
                let Some(status) = begun_anew(&machine, self.now()) else {
                    return Ok(());
                };
                executor.write_status(&machine, &status).await?;
                let event =
                    executor
                        .recorder
                        .record(&executor.control, &machine, EventType::Normal, "Unfrozen", RESET_TEXT);
                if let Err(error) = event.await {
                    tracing::debug!(error = brief(&error), "recording the event failed");
                }
                Ok::<(), kube::Error>(())
            };
            if let Err(error) = reset.await {
                tracing::info!(
                    machine = name,
                    error = brief(&error),
                    "resetting the machine failed; it will be retried"
                );
                return false;
            }
        }
        true
    }
}
