//! From start to the first successful write of a CustomResourceDefinition over HTTPS.

use anyhow::Result;
use clock::Clock;
use kube::Client;
use kube::api::{Api, PostParams};

use crate::figures::Figures;
use crate::objects;
use crate::peer::{Peer, Programs};
use crate::process::{self, Drydock, seconds_since};

const RUNS: usize = 25;
/// The number of starts; a start of the peer takes seconds.
const PEER_RUNS: usize = 3;

/// Starts each repeatedly.
pub async fn measure(figures: &mut Figures, peer: Option<&Programs>) -> Result<()> {
    let clock = Clock::wall();
    let mut ours = Vec::new();
    let mut memory = 0.0_f64;
    for _ in 0..RUNS {
        let from = clock.now();
        let drydock = Drydock::start().await?;
        write_definition(&objects::client(&drydock.kubeconfig).await?).await?;
        ours.push(seconds_since(&clock, from));
        memory = memory.max(drydock.process.peak_mebibytes()?);
        drydock.process.stop().await?;
    }
    let mut theirs = Vec::new();
    let mut their_memory = None;
    if let Some(programs) = peer {
        for _ in 0..PEER_RUNS {
            let from = clock.now();
            let started = Peer::start(programs).await?;
            write_definition(&started.client().await?).await?;
            theirs.push(process::seconds_since(&clock, from));
            their_memory = Some(started.peak_mebibytes()?);
            started.stop().await?;
        }
    }
    for (name, rank) in [("min", 0.0), ("median", 0.5), ("max", 1.0)] {
        let milliseconds = |times: &mut Vec<f64>| Some(quantile(times, rank)? * 1000.0);
        let value = milliseconds(&mut ours).unwrap_or_default();
        figures.add(
            format!("start to first CRD write, {name}"),
            value,
            "ms",
            milliseconds(&mut theirs),
        );
    }
    figures.add("memory after the start, peak", memory, "MiB", their_memory);
    Ok(())
}

async fn write_definition(client: &Client) -> Result<()> {
    Api::all(client.clone())
        .create(&PostParams::default(), &objects::definition()?)
        .await?;
    Ok(())
}

/// The quantile of the values; `None` without values.
pub fn quantile(values: &mut [f64], rank: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    let index = (last as f64 * rank).round() as usize;
    values.get(index).copied()
}
