//! Removes a label from new machines.

use std::time::Duration;

use clock::Clock;
use jiff::{SignedDuration, Timestamp};
use kube::api::{ListParams, Patch, PatchParams};
use scenario::step::Strip;
use scenario::{Timeouts, kinds};
use serde_json::json;
use stage::kind_api::KindApi;

use super::action_error::{ActionError, cannot};

/// Age of a machine when its label is removed, and poll period.
const AGE: Duration = Duration::from_secs(1);

/// Removes labels until the end of the step. Returns their number.
pub(super) async fn run(
    client: &kube::Client,
    clock: &Clock,
    timeouts: &Timeouts,
    namespace: &str,
    strip: &Strip,
) -> Result<u64, ActionError> {
    let mut removed = 0;
    let machines = kinds::find("Machine")?.api(client, namespace);
    let lasts = SignedDuration::try_from(strip.lasts.value(timeouts)).unwrap_or(SignedDuration::MAX);
    let started = clock.now();
    let end = started.saturating_add(lasts).unwrap_or(Timestamp::MAX);
    let selected = ListParams::default().labels(&format!("{}={}", strip.label, strip.value));
    let patch = Patch::Merge(json!({ "metadata": { "labels": { strip.label.as_str(): null } } }));
    while clock.now() < end {
        clock.sleep(AGE).await;
        let listed = machines.list(&selected).await;
        let listed = listed.map_err(cannot("list machines"))?;
        for machine in listed.items {
            let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
            // Timestamps in objects have whole seconds.
            if created.is_none_or(|created| created.as_second() < started.as_second()) {
                continue;
            }
            let name = machine.metadata.name.unwrap_or_default();
            match machines.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => removed += 1,
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(cannot(format!("remove the label {} from {name}", strip.label))(error)),
            }
        }
    }
    Ok(removed)
}
