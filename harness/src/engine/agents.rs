//! The agents on nodes that are updated in place: each says after a while that its node's update succeeded. One on a node
//! that is not Ready says nothing.

use std::time::Duration;

use clock::Clock;
use futures::stream::{BoxStream, StreamExt, unfold};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use mcm_api::keys;
use serde_json::json;

use super::observe::Raw;

/// How often they look, and how long an update takes at least.
const PERIOD: Duration = Duration::from_secs(10);
/// What a node's condition says when its update may begin.
const READY: &str = "ReadyForUpdate";

/// They work for as long as the stream is polled; it tells what they do.
pub(super) fn run(client: kube::Client, clock: Clock) -> BoxStream<'static, Raw> {
    let api: Api<Node> = Api::all(client);
    let selected = ListParams::default().labels(keys::CANDIDATE_FOR_UPDATE_LABEL);
    unfold((api, selected, clock), |(api, selected, clock)| async move {
        clock.sleep(PERIOD).await;
        let nodes = api.list(&selected).await.map(|list| list.items).unwrap_or_default();
        let mut told = Vec::new();
        for node in nodes.iter().filter(|node| is_ready(node)) {
            let name = node.name_any();
            let labels = json!({ "metadata": { "labels": { keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL } } });
            let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(labels)).await;
            told.push(match written {
                Ok(_) => Raw::Note(format!("the agent on node {name} says that its update succeeded")),
                Err(error) => Raw::Note(format!("the agent on node {name} cannot speak: {error}")),
            });
        }
        Some((futures::stream::iter(told), (api, selected, clock)))
    })
    .flatten()
    .boxed()
}

/// Whether an update may begin on the node, and nothing came of it yet.
fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let has = |expected: &dyn Fn(&NodeCondition) -> bool| conditions.into_iter().flatten().any(expected);
    let lives = has(&|condition| condition.type_ == "Ready" && condition.status == "True");
    let waits = has(&|condition| {
        condition.type_ == keys::IN_PLACE_UPDATE_CONDITION && condition.reason.as_deref() == Some(READY)
    });
    lives && waits && !node.labels().contains_key(keys::UPDATE_RESULT_LABEL)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::ready(READY, None, "True", true)]
    #[case::it_drains(keys::UPDATE_SUCCESSFUL_REASON, None, "True", false)]
    #[case::it_has_spoken(READY, Some("successful"), "True", false)]
    #[case::it_is_dead(READY, None, "Unknown", false)]
    fn an_agent_speaks_once_when_its_node_is_ready(
        #[case] reason: &str,
        #[case] result: Option<&str>,
        #[case] lives: &str,
        #[case] speaks: bool,
    ) {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "labels": result.map(|result| json!({ keys::UPDATE_RESULT_LABEL: result })) },
            "status": { "conditions": [
                { "type": "Ready", "status": lives },
                { "type": keys::IN_PLACE_UPDATE_CONDITION, "status": "True", "reason": reason },
            ]},
        }))
        .unwrap();
        assert_eq!(is_ready(&node), speaks);
    }
}
