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

async fn page(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}
