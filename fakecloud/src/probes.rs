//! `/healthz`, `/readyz` and `/metrics` of the process, over plain HTTP for kubelets and scrapers; `/metrics` may have an
//! address of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use futures::future::join_all;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::bind::bind;
use crate::metrics::Metrics;

/// Whether gRPC calls are answered. Clones share the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Sets whether calls are answered.
    pub(crate) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    fn answer(&self) -> (StatusCode, &'static str) {
        if self.0.load(Ordering::Relaxed) {
            (StatusCode::OK, "OK")
        } else {
            let reason = "gRPC is not served: the process starts, waits for the API server, or ends";
            (StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    }
}

/// The listeners for probes and metrics.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// Serves `/metrics`, too, unless they have a listener of their own.
    probes: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Listeners {
    /// Binds the addresses of --health-address and --metrics-address.
    ///
    /// # Errors
    /// An address is not available.
    pub(crate) async fn bind(probes: Option<SocketAddr>, metrics: Option<SocketAddr>) -> anyhow::Result<Self> {
        let mut listeners = Self::default();
        if let Some(address) = probes {
            listeners.probes = Some(bind("--health-address", address).await?);
        }
        if let Some(address) = metrics {
            listeners.metrics = Some(bind("--metrics-address", address).await?);
        }
        Ok(listeners)
    }

    /// What is served where.
    pub(crate) fn announcements(&self) -> Vec<String> {
        let probes = match self.metrics {
            Some(_) => "probes",
            None => "probes and metrics",
        };
        [(probes, &self.probes), ("metrics", &self.metrics)]
            .into_iter()
            .filter_map(|(what, listener)| {
                let address = listener.as_ref()?.local_addr().ok()?;
                Some(format!("{what}: http://{address}"))
            })
            .collect()
    }

    /// Answers until `token` is cancelled.
    pub(crate) async fn serve(self, readiness: Readiness, metrics: Metrics, token: CancellationToken) {
        let probe_pages = match self.metrics {
            Some(_) => probe_pages(readiness),
            None => probe_pages(readiness).merge(metrics_page(metrics.clone())),
        };
        let answering = [(self.probes, probe_pages), (self.metrics, metrics_page(metrics))]
            .into_iter()
            .filter_map(|(listener, pages)| {
                let pages = TowerToHyperService::new(pages);
                Some(serving::probes::serve(listener?, pages, token.clone()))
            });
        join_all(answering).await;
    }
}

/// Answers probes of a process that has no other state, until `token` is cancelled.
pub(crate) async fn answer(listener: TcpListener, token: CancellationToken) {
    let readiness = Readiness::default();
    readiness.set(true);
    serving::probes::serve(listener, TowerToHyperService::new(probe_pages(readiness)), token).await;
}

fn probe_pages(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "OK" }))
        .route("/readyz", get(move || async move { readiness.answer() }))
}

fn metrics_page(metrics: Metrics) -> Router {
    let page = move || async move { ([(CONTENT_TYPE, serving::OPEN_METRICS)], metrics.text()) };
    Router::new().route("/metrics", get(page))
}
