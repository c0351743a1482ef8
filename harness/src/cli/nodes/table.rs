//! The output of `drydock nodes list`: one row for each VM, with its kubelet and its Node.

use std::collections::BTreeMap;

use fakecloud::proto::Kubelet;
use k8s_openapi::api::core::v1::Node;
use scenario::cloud::VmState;
use serde::Serialize;

use super::faults;

/// A value that is unknown without an API server.
const UNKNOWN: &str = "?";
/// An absent value.
const NONE: &str = "-";

/// One VM with its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// The Node's name.
    node: String,
    /// The VM's id.
    vm: String,
    zone: String,
    /// The VM's state.
    state: &'static str,
    /// The kubelet's state: up, joining, partitioned and so on.
    kubelet: String,
    /// The kubelet's faults.
    faults: Vec<String>,
    /// The conditions that were set, `TYPE=STATUS`; a kubelet that is down does not report them.
    set: Vec<String>,
    /// Status of the Node's condition Ready; absent: there is no Node, or it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<String>,
    /// The Node's conditions; absent: there is no Node, or they are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<BTreeMap<String, String>>,
    /// Number of pods that are bound to the Node.
    pods: u32,
    /// Whether Nodes were read from an API server.
    #[serde(skip)]
    nodes_are_known: bool,
}

impl Row {
    /// The row of a kubelet; `nodes` are all Nodes by name, if the API server is known.
    pub(super) fn new(kubelet: &Kubelet, nodes: Option<&BTreeMap<String, Node>>) -> Self {
        let own = |node: &&Node| {
            let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            provider_id.is_none_or(|id| id == kubelet.provider_id)
        };
        let conditions = nodes
            .and_then(|nodes| nodes.get(&kubelet.node))
            .filter(own)
            .map(conditions);
        Self {
            node: kubelet.node.clone(),
            vm: kubelet.vm_id.clone(),
            zone: zone(&kubelet.provider_id).to_owned(),
            state: kubelet.vm_state().known().map_or("unknown", VmState::name),
            kubelet: kubelet_state(kubelet),
            faults: kubelet.faults.iter().map(faults::describe).collect(),
            set: kubelet
                .conditions
                .iter()
                .map(|condition| format!("{}={}", condition.r#type, condition.status))
                .collect(),
            ready: conditions.as_ref().and_then(|all| all.get("Ready").cloned()),
            conditions,
            pods: kubelet.pods,
            nodes_are_known: nodes.is_some(),
        }
    }

    /// Whether the node has a fault or another problem.
    pub(super) fn is_broken(&self) -> bool {
        let not_ready = self.nodes_are_known && self.ready.as_deref() != Some("True");
        not_ready || self.state != "running" || !self.faults.is_empty() || !self.set.is_empty()
    }

    /// The status of Ready, and the other conditions that indicate a problem.
    fn shown_conditions(&self) -> (String, String) {
        let Some(conditions) = &self.conditions else {
            let absent = if self.nodes_are_known { NONE } else { UNKNOWN };
            return (absent.to_owned(), list(&self.set));
        };
        let ready = self.ready.clone().unwrap_or_else(|| NONE.to_owned());
        // All conditions of an unreachable node are Unknown; only Ready shows that.
        let is_problem = |status: &str| status != "False" && (status != "Unknown" || ready != "Unknown");
        let others: Vec<String> = conditions
            .iter()
            .filter(|(kind, status)| *kind != "Ready" && is_problem(status))
            .map(|(kind, status)| format!("{kind}={status}"))
            .collect();
        (ready, list(&others))
    }
}

/// The statuses of a Node's conditions by type.
fn conditions(node: &Node) -> BTreeMap<String, String> {
    let status = node.status.as_ref();
    let all = status.and_then(|status| status.conditions.as_ref());
    all.into_iter()
        .flatten()
        .map(|condition| (condition.type_.clone(), condition.status.clone()))
        .collect()
}

/// The zone in `fakecloud:///ZONE/VM`.
fn zone(provider_id: &str) -> &str {
    provider_id.rsplit('/').nth(1).unwrap_or_default()
}

/// The kubelet's stage until it has registered its Node, then its state.
fn kubelet_state(kubelet: &Kubelet) -> String {
    let mut text = match kubelet.stage.as_str() {
        "registered" => faults::state(kubelet.state()).to_owned(),
        stage => stage.to_owned(),
    };
    if kubelet.recovering {
        text += ", recovering";
    }
    text
}

fn list(texts: &[String]) -> String {
    match texts {
        [] => NONE.to_owned(),
        texts => texts.join(","),
    }
}

/// The rows as a table with headings.
pub(super) fn table(rows: &[Row]) -> String {
    let headings = [
        "NODE",
        "VM",
        "ZONE",
        "STATE",
        "KUBELET",
        "FAULTS",
        "READY",
        "CONDITIONS",
        "PODS",
    ];
    let mut lines = vec![headings.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let (ready, conditions) = row.shown_conditions();
        [
            row.node.clone(),
            row.vm.clone(),
            row.zone.clone(),
            row.state.to_owned(),
            row.kubelet.clone(),
            list(&row.faults),
            ready,
            conditions,
            row.pods.to_string(),
        ]
    }));
    let mut widths = [0; 9];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text += cells.join("   ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use fakecloud::proto::kubelet_fault::Fault;
    use fakecloud::proto::{self, KubeletFault, KubeletState, NodeCondition, Nothing};
    use serde_json::json;

    use super::*;

    fn kubelet(node: &str) -> Kubelet {
        Kubelet {
            node: node.to_owned(),
            vm_id: format!("vm-of-{node}"),
            provider_id: format!("fakecloud:///local-1/vm-of-{node}"),
            vm_state: proto::VmState::Running.into(),
            stage: "registered".to_owned(),
            state: KubeletState::Up.into(),
            pods: 2,
            ..Kubelet::default()
        }
    }

    fn partitioned(node: &str) -> Kubelet {
        Kubelet {
            state: KubeletState::Partitioned.into(),
            faults: vec![KubeletFault {
                fault: Some(Fault::Partitioned(Nothing {})),
            }],
            conditions: vec![NodeCondition {
                r#type: "DiskPressure".to_owned(),
                status: "True".to_owned(),
                ..NodeCondition::default()
            }],
            ..kubelet(node)
        }
    }

    /// A Node with these conditions.
    fn node(name: &str, conditions: &[(&str, &str)]) -> (String, Node) {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status)| json!({"type": kind, "status": status}))
            .collect();
        let node = json!({
            "metadata": {"name": name},
            "spec": {"providerID": format!("fakecloud:///local-1/vm-of-{name}")},
            "status": {"conditions": conditions},
        });
        (name.to_owned(), serde_json::from_value(node).unwrap())
    }

    #[test]
    fn the_table_shows_vm_kubelet_and_node() {
        let nodes = BTreeMap::from([
            node("a", &[("Ready", "True"), ("DiskPressure", "False")]),
            node(
                "b",
                &[
                    ("Ready", "Unknown"),
                    ("DiskPressure", "Unknown"),
                    ("KernelDeadlock", "True"),
                ],
            ),
            node("c", &[("Ready", "False"), ("PIDPressure", "Unknown")]),
        ]);
        let joining = Kubelet {
            stage: "joining".to_owned(),
            vm_state: proto::VmState::Stopped.into(),
            pods: 0,
            ..kubelet("long-name")
        };
        let kubelets = [kubelet("a"), partitioned("b"), kubelet("c"), joining];
        let rows: Vec<Row> = kubelets.iter().map(|kubelet| Row::new(kubelet, Some(&nodes))).collect();
        let expected = "\
NODE        VM                ZONE      STATE     KUBELET       FAULTS        READY     CONDITIONS            PODS
a           vm-of-a           local-1   running   up            -             True      -                     2
b           vm-of-b           local-1   running   partitioned   partitioned   Unknown   KernelDeadlock=True   2
c           vm-of-c           local-1   running   up            -             False     PIDPressure=Unknown   2
long-name   vm-of-long-name   local-1   stopped   joining       -             -         -                     0
";
        assert_eq!(table(&rows), expected);
        let broken: Vec<bool> = rows.iter().map(Row::is_broken).collect();
        assert_eq!(broken, [false, true, true, true]);
    }

    #[test]
    fn without_an_api_server_the_set_conditions_are_shown() {
        let rows = [Row::new(&kubelet("a"), None), Row::new(&partitioned("b"), None)];
        let expected = "\
NODE   VM        ZONE      STATE     KUBELET       FAULTS        READY   CONDITIONS          PODS
a      vm-of-a   local-1   running   up            -             ?       -                   2
b      vm-of-b   local-1   running   partitioned   partitioned   ?       DiskPressure=True   2
";
        assert_eq!(table(&rows), expected);
        assert!(!rows[0].is_broken() && rows[1].is_broken());
    }

    #[test]
    fn the_node_of_another_vm_is_ignored() {
        let mut nodes = BTreeMap::from([node("a", &[("Ready", "True")])]);
        let spec = nodes.get_mut("a").and_then(|node| node.spec.as_mut()).unwrap();
        spec.provider_id = Some("fakecloud:///local-1/vm-of-another".to_owned());
        assert_eq!(Row::new(&kubelet("a"), Some(&nodes)).ready, None);
    }

    #[test]
    fn json_contains_all_fields() {
        let nodes = BTreeMap::from([node("b", &[("Ready", "Unknown")])]);
        let row = serde_json::to_value(Row::new(&partitioned("b"), Some(&nodes))).unwrap();
        let expected = json!({
            "node": "b", "vm": "vm-of-b", "zone": "local-1", "state": "running", "kubelet": "partitioned",
            "faults": ["partitioned"], "set": ["DiskPressure=True"], "ready": "Unknown",
            "conditions": {"Ready": "Unknown"}, "pods": 2,
        });
        assert_eq!(row, expected);
    }
}
