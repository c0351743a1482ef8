//! The cells of the table through the full decision: from a machine, its Node, its owner's list and the time to the
//! first write that concerns preservation. Each cell runs with a healthy and an unhealthy Node if the phase allows
//! both.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{
    MachineStatus, Operation, Phase, Preservation, PreservationEntry, PreservationStage, PreservedBy, State,
};
use mcm_core::machine::{Action, NodeView};
use mcm_core::preservation::{Admission, Dialect, ListView};

use super::lab::Lab;
use super::oracle::{Cell, outcome};
use super::table::{cells, metadata};
use crate::fixtures::*;

/// Whether a view of a machine with a VM and a set can represent the cell.
fn is_representable(cell: &Cell<'_>) -> bool {
    let phase = matches!(
        cell.phase,
        "fails" | "recovers" | "Running" | "Failed" | "Unknown" | "Pending"
    );
    // A machine that recovers or is Running has a Node.
    let node = cell.node != "absent" || !matches!(cell.phase, "recovers" | "Running");
    let kept = !matches!(cell.kept, "no-vm" | "adopted");
    // Before a preservation, the Node that requested it is not recorded.
    let known = cell.kept != "free" || cell.node != "other" || cell.machine != "copied";
    phase && node && kept && known && cell.limit != "no-owner"
}

fn record(kept: &str) -> Option<Preservation> {
    let (by, stage, request, reason) = match kept {
        "draining" => (PreservedBy::Node, PreservationStage::Draining, "when-failed", ""),
        "relapsing" => (PreservedBy::Node, PreservationStage::Draining, "when-failed", "Relapse"),
        "auto-draining" => (PreservedBy::Auto, PreservationStage::Draining, "", ""),
        "auto" | "lowered" => (PreservedBy::Auto, PreservationStage::Preserved, "", ""),
        "now" => (PreservedBy::Node, PreservationStage::Preserved, "now", ""),
        "when-failed" => (PreservedBy::Machine, PreservationStage::Preserved, "when-failed", ""),
        "releasing-now" => (PreservedBy::Node, PreservationStage::Releasing, "now", ""),
        "releasing" => (PreservedBy::Node, PreservationStage::Releasing, "", ""),
        "expired" => (PreservedBy::Node, PreservationStage::Releasing, "", "Expired"),
        _ => return None,
    };
    Some(Preservation {
        by,
        stage,
        node_uid: "first".to_owned(),
        since: Some(Time(start())),
        request: request.to_owned(),
        reason: reason.to_owned(),
        fencing: None,
    })
}

/// The possible health of the Node: unhealthy if the machine fails or is Failed, healthy if it recovers.
fn healths(cell: &Cell<'_>) -> &'static [bool] {
    match (cell.phase, cell.node) {
        ("recovers", _) => &[true],
        ("fails" | "Failed", _) | (_, "absent") => &[false],
        _ => &[true, false],
    }
}

/// A machine in that cell.
fn lab(cell: &Cell<'_>, dialect: Dialect, well: bool) -> Lab {
    let phase = match cell.phase {
        "fails" => Phase::Unknown,
        "recovers" => Phase::Failed,
        phase => Phase::from(phase),
    };
    let conditions = if well { healthy() } else { unhealthy() };
    let mut lab = Lab::new(with_conditions(with_vm(phase), &conditions));
    set_operation(
        &mut lab.view,
        Operation::HealthCheck,
        State::Processing,
        "Health checks",
    );
    lab.settings.preservation = dialect;
    lab.now = minute(if cell.phase == "fails" { 11 } else { 5 });
    let machine = &mut lab.view.machine;
    machine
        .metadata
        .annotations
        .get_or_insert_default()
        .extend(metadata(cell.machine).annotations.unwrap_or_default());
    machine.status.preservation = record(cell.kept);
    let remaining = match cell.expiry {
        "ahead" => Some(3600),
        "over" => Some(-1),
        _ => None,
    };
    let ends = remaining.map(|seconds| Time(lab.now + SignedDuration::from_secs(seconds)));
    machine.status.current_status.preserve_expiry_time = ends;
    match (&mut lab.view.node, cell.node) {
        (node, "absent") => *node = NodeView::Absent,
        (NodeView::Present(node), value) => request_by(Arc::make_mut(node), value),
        _ => {}
    }
    let entry = |kept: &str| PreservationEntry {
        by: record(kept).unwrap_or_default().by,
        released: kept == "lowered",
        ..PreservationEntry::default()
    };
    lab.view.owners_list = ListView::Known {
        maximum: 1,
        rolling: cell.rollout == "rollout",
        deployed: true,
        entry: (cell.kept == "lowered").then(|| entry(cell.kept)),
        others: (cell.limit == "full")
            .then(|| "another".to_owned())
            .into_iter()
            .collect::<BTreeSet<_>>(),
    };
    lab
}

fn request_by(node: &mut Node, value: &str) {
    node.metadata.uid = Some(if value == "other" { "second" } else { "first" }.to_owned());
    node.metadata.annotations = metadata(value).annotations;
}

/// The outcome of the first written status, in the terms of the table.
fn decided(cell: &Cell<'_>, dialect: Dialect, admission: Admission, well: bool) -> &'static str {
    let mut lab = lab(cell, dialect, well);
    for _ in 0..12 {
        let before = lab.machine().status.clone();
        let plan = lab.decide();
        if let Some(outcome) = plan.status.as_ref().and_then(|after| change(&before, after)) {
            return outcome;
        }
        if plan.actions.is_empty() && plan.status.is_none() {
            return settled(&before);
        }
        // A user's request is accepted regardless of the maximum.
        lab.answer = match (plan.actions.last(), admission) {
            (Some(Action::Claim { again: true, .. }), Admission::Full) | (_, Admission::Open) => Ok(()),
            (_, admission) => Err(admission),
        };
        lab.carry_out(plan);
    }
    panic!("the machine does not settle: {cell:?}");
}

fn stage(status: &MachineStatus) -> Option<&PreservationStage> {
    status.preservation.as_ref().map(|record| &record.stage)
}

fn change(before: &MachineStatus, after: &MachineStatus) -> Option<&'static str> {
    use PreservationStage::{Draining, Preserved, Releasing};
    let failed = |status: &MachineStatus| status.current_status.base() == Some(&Phase::Failed);
    let ends = stage(after) == Some(&Releasing) && stage(before) != Some(&Releasing);
    let ended = |status: &MachineStatus| status.current_status.preserve_expiry_time.is_none() && !status.is_kept();
    let finished = ended(after) && (!ended(before) || stage(after).is_none());
    match (failed(before), failed(after), stage(before), stage(after)) {
        (_, _, _, Some(Releasing)) if ends => Some("release"),
        (_, true, before, Some(Draining)) if before != Some(&Draining) => Some("keep-failed"),
        (false, true, ..) => Some("replace"),
        (true, false, _, Some(Preserved)) => Some("run-preserved"),
        (true, false, ..) => Some("run"),
        (_, _, Some(Draining), Some(Preserved)) => Some("drain"),
        (_, _, None | Some(Releasing), Some(Preserved)) => Some("start"),
        (_, _, Some(Releasing), _) if finished => Some("finish"),
        _ => None,
    }
}

/// The outcome when nothing more is written.
fn settled(status: &MachineStatus) -> &'static str {
    match stage(status) {
        None => "nothing",
        Some(PreservationStage::Releasing) => "finish",
        Some(PreservationStage::Draining) => "drain",
        Some(_) => "keep",
    }
}

#[test]
fn full_decisions_match_the_oracle() {
    let all = cells().filter(|(cell, ..)| is_representable(cell));
    let all = all.flat_map(|(cell, dialect, admission)| {
        let each = healths(&cell).iter().copied();
        each.map(move |well| (outcome(&cell), decided(&cell, dialect, admission, well), cell, well))
    });
    let (right, wrong): (Vec<_>, Vec<_>) = all.partition(|((expected, _), decided, ..)| decided == expected);
    assert!(right.len() + wrong.len() > 90_000, "{} cells", right.len());
    let listed: Vec<_> = wrong
        .iter()
        .take(30)
        .map(|((expected, citation), decided, cell, healthy)| {
            let health = if *healthy { "healthy" } else { "unhealthy" };
            format!("{cell:?}, {health}: {decided}, not {expected} ({citation})")
        })
        .collect();
    let all = right.len() + wrong.len();
    assert!(
        wrong.is_empty(),
        "{} of {all} wrong:\n{}",
        wrong.len(),
        listed.join("\n")
    );
}
