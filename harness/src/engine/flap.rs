//! Flaps a condition of a node: writes alternating statuses.

use clock::Clock;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use scenario::Timeouts;
use scenario::step::Flap;
use serde_json::json;

use super::action_error::{ActionError, cannot};

/// Flaps until the end of the step, or until the node is deleted. Returns the number of writes.
pub(super) async fn run(
    client: &kube::Client,
    clock: &Clock,
    timeouts: &Timeouts,
    node: &str,
    flap: &Flap,
) -> Result<u64, ActionError> {
    let api: Api<Node> = Api::all(client.clone());
    let lasts = SignedDuration::try_from(flap.lasts.value(timeouts)).unwrap_or(SignedDuration::MAX);
    let end = clock.now().saturating_add(lasts).unwrap_or(jiff::Timestamp::MAX);
    let mut written = 0;
    while clock.now() < end {
        let status = &flap.values[usize::from(written % 2 == 1)];
        let now = clock.now();
        let condition = json!({
            "type": flap.condition,
            "status": status,
            "reason": "Flapping",
            "message": format!("written {} times", written + 1),
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        });
        let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
        match api.patch_status(node, &PatchParams::default(), &patch).await {
            Ok(_) => written += 1,
            Err(kube::Error::Api(status)) if status.is_not_found() => break,
            Err(error) => {
                let attempt = format!("write condition {} of node {node}", flap.condition);
                return Err(cannot(attempt)(error));
            }
        }
        clock.sleep(flap.every.value(timeouts)).await;
    }
    Ok(written)
}
