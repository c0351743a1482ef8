//! The output of `drydock nodes list`: one row for each VM, with its kubelet and its Node.

use std::collections::BTreeMap;

use fakecloud::proto::Kubelet;
use k8s_openapi::api::core::v1::Node;
use scenario::cloud::VmState;
use serde::Serialize;
use terminal::{Column, Row};

use super::faults;

/// A value that is unknown without an API server.
const UNKNOWN: &str = "?";
/// An absent value, which the table shows as a dash.
const NONE: &str = "";

/// One VM with its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeRow {
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

impl NodeRow {
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
            return (absent.to_owned(), self.set.join(","));
        };
        let ready = self.ready.clone().unwrap_or_else(|| NONE.to_owned());
        // All conditions of an unreachable node are Unknown; only Ready shows that.
        let is_problem = |status: &str| status != "False" && (status != "Unknown" || ready != "Unknown");
        let others: Vec<String> = conditions
            .iter()
            .filter(|(kind, status)| *kind != "Ready" && is_problem(status))
            .map(|(kind, status)| format!("{kind}={status}"))
            .collect();
        (ready, others.join(","))
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

impl Row for NodeRow {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("NODE"),
        Column::Shown("VM"),
        Column::Shown("ZONE"),
        Column::Shown("STATE"),
        Column::Shown("KUBELET"),
        Column::Shown("FAULTS"),
        Column::Shown("READY"),
        Column::Shown("CONDITIONS"),
        Column::Shown("PODS"),
        Column::Wide("SET"),
    ];

    fn cells(&self) -> Vec<String> {
        let (ready, conditions) = self.shown_conditions();
        vec![
            self.node.clone(),
            self.vm.clone(),
            self.zone.clone(),
            self.state.to_owned(),
            self.kubelet.clone(),
            self.faults.join(","),
            ready,
            conditions,
            self.pods.to_string(),
            self.set.join(","),
        ]
    }
}

#[cfg(test)]
mod tests {
    use fakecloud::proto::kubelet_fault::Fault;
    use fakecloud::proto::{self, KubeletFault, KubeletState, NodeCondition, Nothing};
    use serde_json::json;
    use terminal::{Format, render};

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
        let rows: Vec<NodeRow> = kubelets
            .iter()
            .map(|kubelet| NodeRow::new(kubelet, Some(&nodes)))
            .collect();
        let expected = "\
NODE       VM               ZONE     STATE    KUBELET      FAULTS       READY    CONDITIONS           PODS
a          vm-of-a          local-1  running  up           -            True     -                    2
b          vm-of-b          local-1  running  partitioned  partitioned  Unknown  KernelDeadlock=True  2
c          vm-of-c          local-1  running  up           -            False    PIDPressure=Unknown  2
long-name  vm-of-long-name  local-1  stopped  joining      -            -        -                    0
";
        assert_eq!(render(Format::Table, &rows).unwrap(), expected);
        let broken: Vec<bool> = rows.iter().map(NodeRow::is_broken).collect();
        assert_eq!(broken, [false, true, true, true]);
    }

    #[test]
    fn without_an_api_server_the_set_conditions_are_shown() {
        let rows = [NodeRow::new(&kubelet("a"), None), NodeRow::new(&partitioned("b"), None)];
        let expected = "\
NODE  VM       ZONE     STATE    KUBELET      FAULTS       READY  CONDITIONS         PODS
a     vm-of-a  local-1  running  up           -            ?      -                  2
b     vm-of-b  local-1  running  partitioned  partitioned  ?      DiskPressure=True  2
";
        assert_eq!(render(Format::Table, &rows).unwrap(), expected);
        assert!(!rows[0].is_broken() && rows[1].is_broken());
    }

    #[test]
    fn the_node_of_another_vm_is_ignored() {
        let mut nodes = BTreeMap::from([node("a", &[("Ready", "True")])]);
        let spec = nodes.get_mut("a").and_then(|node| node.spec.as_mut()).unwrap();
        spec.provider_id = Some("fakecloud:///local-1/vm-of-another".to_owned());
        assert_eq!(NodeRow::new(&kubelet("a"), Some(&nodes)).ready, None);
    }

    #[test]
    fn json_contains_all_fields() {
        let nodes = BTreeMap::from([node("b", &[("Ready", "Unknown")])]);
        let row = serde_json::to_value(NodeRow::new(&partitioned("b"), Some(&nodes))).unwrap();
        let expected = json!({
            "node": "b", "vm": "vm-of-b", "zone": "local-1", "state": "running", "kubelet": "partitioned",
            "faults": ["partitioned"], "set": ["DiskPressure=True"], "ready": "Unknown",
            "conditions": {"Ready": "Unknown"}, "pods": 2,
        });
        assert_eq!(row, expected);
    }
}
