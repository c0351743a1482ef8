//! Asking the API servers whether they answer, and beginning anew after an outage.

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

/// The object that is asked for, as upstream does. That there is none is an answer.
const NOBODY: &str = "dummy_name";
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);

impl Safety {
    /// Asks for ever.
    pub(super) async fn probe(&self) -> Infallible {
        let clock = &self.executor().clock;
        loop {
            let asked = self.now();
            let problem = if self.would_be_answered() {
                None
            } else {
                self.ask().await
            };
            let before = self.guard().health();
            let next = before.after(problem.is_none(), asked, self.now(), &self.settings.api);
            let next = if defect!(PastOutageCountsAsBegun) {
                super::defects::without_reset(before, next)
            } else {
                next
            };
            self.guard().set(next.health);
            self.tell(before, next.health, problem.as_deref());
            if before != ApiHealth::Up && next.health == ApiHealth::Up {
                // What waits for an answer need not wait for its period.
                self.guard().suspect();
            }
            let mut wake = next.wake;
            if next.thaw && self.thaw().await {
                self.guard().set(ApiHealth::Up);
                self.tell(next.health, ApiHealth::Up, None);
                self.guard().thaw();
                self.guard().suspect();
                wake = self.settings.api.period;
            }
            clock.sleep(wake).await;
        }
    }

    fn tell(&self, before: ApiHealth, after: ApiHealth, problem: Option<&str>) {
        self.executor().metrics.set_frozen(after.is_frozen());
        match (before.is_frozen(), after.is_frozen()) {
            (false, true) => tracing::warn!(
                problem,
                seconds = self.settings.api.timeout.as_secs(),
                "an API server is away: frozen; no VM is made or deleted until both answer"
            ),
            (true, false) => tracing::info!("both API servers answer again: no longer frozen"),
            _ => {
                if let Some(problem) = problem {
                    tracing::info!(problem, "an API server does not answer");
                }
            }
        }
    }

    /// Whether the API servers answer for certain, in a simulated world.
    fn would_be_answered(&self) -> bool {
        let executor = self.executor();
        executor.clock.has_stable_connections()
            && self.guard().health() == ApiHealth::Up
            && executor.tenure.is_unheard()
    }

    /// What is wrong with an API server; `None`: both answer.
    async fn ask(&self) -> Option<String> {
        let executor = self.executor();
        let machines: Api<Machine> = Api::namespaced(executor.control.clone(), &executor.state.namespace);
        let control = Box::pin(async move { machines.get_metadata(NOBODY).await.map(|_| ()) });
        if let Some(problem) = self.ask_one("control", control).await {
            return Some(problem);
        }
        let nodes: Api<Node> = Api::all(executor.target.clone()?);
        let target = Box::pin(async move { nodes.get_metadata(NOBODY).await.map(|_| ()) });
        self.ask_one("target", target).await
    }

    async fn ask_one(&self, cluster: &str, question: BoxFuture<'_, kube::Result<()>>) -> Option<String> {
        let limit = ANSWER.min(self.settings.api.timeout);
        match tokio::time::timeout(limit, question).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) if is_not_found(&error) => None,
            Ok(Err(error)) => Some(format!("the {cluster} cluster: {}", brief(&error))),
            Err(_) => Some(format!("the {cluster} cluster: no answer within {limit:?}")),
        }
    }

    /// Has the machines that became Unknown begin anew; answers whether all did.
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
                    tracing::debug!(error = brief(&error), "the event was not recorded");
                }
                Ok::<(), kube::Error>(())
            };
            if let Err(error) = reset.await {
                tracing::info!(
                    machine = name,
                    error = brief(&error),
                    "the machine did not begin anew; again soon"
                );
                return false;
            }
        }
        true
    }
}
