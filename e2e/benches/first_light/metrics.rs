//! mcm's metrics.

use std::net::Ipv4Addr;
use std::ops::Sub;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The API requests that it sent, with or without a response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Requests {
    /// All requests.
    pub all: f64,
    /// Write requests.
    pub writes: f64,
}

impl Sub for Requests {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            all: self.all - before.all,
            writes: self.writes - before.writes,
        }
    }
}

/// All requests since its start.
pub async fn requests(port: u16) -> Result<Requests> {
    let mut requests = Requests::default();
    for line in page(port).await?.lines() {
        let Some(labels) = line.strip_prefix("mcm_kube_api_requests_total{") else {
            continue;
        };
        let (labels, value) = labels
            .split_once('}')
            .context("a metric without an end of its labels")?;
        let value: f64 = value.trim().parse().with_context(|| format!("no number in {line:?}"))?;
        requests.all += value;
        if !labels.contains(r#"method="GET""#) {
            requests.writes += value;
        }
    }
    Ok(requests)
}

/// Whether mcm leads; false if it does not respond yet.
pub async fn leads(port: u16) -> bool {
    let page = page(port).await.unwrap_or_default();
    page.lines().any(|line| line == "mcm_leader 1")
}

/// The mean time of a pass of health checks, in milliseconds; `None`: there was no pass, or mcm does not respond yet.
pub async fn mean_health_evaluation(port: u16) -> Option<f64> {
    let page = page(port).await.ok()?;
    let value = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<f64>().ok())
    };
    let passes = value("mcm_mhc_evaluation_duration_seconds_count ").filter(|passes| *passes > 0.0)?;
    Some(value("mcm_mhc_evaluation_duration_seconds_sum ")? * 1000.0 / passes)
}

async fn page(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}
