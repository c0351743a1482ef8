//! The agents on nodes that are updated in place: each reports after a while that the update of its node succeeded. An
//! agent on a node that is not Ready reports nothing.

use std::time::Duration;

use clock::Clock;
use futures::stream::{BoxStream, StreamExt, unfold};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use mcm_api::keys;
use runtime::error::brief;
use serde_json::json;

use super::observe::Raw;

/// Poll period of the agents, and minimum duration of an update.
const PERIOD: Duration = Duration::from_secs(10);
/// Reason of a node's update condition when the update may begin.
const READY: &str = "ReadyForUpdate";

/// Runs the agents while the returned stream is polled. The stream contains notes about their actions.
pub(super) fn run(client: kube::Client, clock: Clock) -> BoxStream<'static, Raw> {
    let api: Api<Node> = Api::all(client);
    let selected = ListParams::default().labels(keys::CANDIDATE_FOR_UPDATE_LABEL);
    unfold((api, selected, clock), |(api, selected, clock)| async move {
        clock.sleep(PERIOD).await;
        let nodes = api.list(&selected).await.map(|list| list.items).unwrap_or_default();
        let mut notes = Vec::new();
        for node in nodes.iter().filter(|node| is_ready(node)) {
            let name = node.name_any();
            let labels = json!({ "metadata": { "labels": { keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL } } });
            let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(labels)).await;
            notes.push(match written {
                Ok(_) => Raw::Note(format!("the agent on node {name} reports a successful update")),
                Err(error) => Raw::Note(format!(
                    "the agent on node {name} cannot report its update: {}",
                    brief(&error)
                )),
            });
        }
        Some((futures::stream::iter(notes), (api, selected, clock)))
    })
    .flatten()
    .boxed()
}

/// Whether an update may begin on the node and has no result yet.
fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let has = |expected: &dyn Fn(&NodeCondition) -> bool| conditions.into_iter().flatten().any(expected);
    let is_healthy = has(&|condition| condition.type_ == "Ready" && condition.status == "True");
    let may_update = has(&|condition| {
        condition.type_ == keys::IN_PLACE_UPDATE_CONDITION && condition.reason.as_deref() == Some(READY)
    });
    is_healthy && may_update && !node.labels().contains_key(keys::UPDATE_RESULT_LABEL)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::ready(READY, None, "True", true)]
    #[case::it_drains(keys::UPDATE_SUCCESSFUL_REASON, None, "True", false)]
    #[case::it_has_a_result(READY, Some("successful"), "True", false)]
    #[case::its_node_is_unknown(READY, None, "Unknown", false)]
    fn an_agent_reports_once_when_its_node_is_ready(
        #[case] reason: &str,
        #[case] result: Option<&str>,
        #[case] ready: &str,
        #[case] reports: bool,
    ) {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "labels": result.map(|result| json!({ keys::UPDATE_RESULT_LABEL: result })) },
            "status": { "conditions": [
                { "type": "Ready", "status": ready },
                { "type": keys::IN_PLACE_UPDATE_CONDITION, "status": "True", "reason": reason },
            ]},
        }))
        .unwrap();
        assert_eq!(is_ready(&node), reports);
    }
}
