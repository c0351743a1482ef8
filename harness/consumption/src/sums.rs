//! The resources of a whole pod: the sum of its containers, or what its init containers need before them.

use quantity::Quantity;
use serde_json::Value;

use crate::{Amounts, amounts, items, text};

/// The `requests` or `limits` of a pod.
pub fn of<'a>(pod: &'a Value, kind: &str) -> Amounts<'a> {
    let pointer = format!("/resources/{kind}");
    let mut total = Amounts::new();
    for container in items(pod, "/spec/containers") {
        add(&mut total, &amounts(container, &pointer));
    }
    let mut sidecars = Amounts::new();
    let mut largest = Amounts::new();
    for container in items(pod, "/spec/initContainers") {
        let mut own = amounts(container, &pointer);
        if text(container, "/restartPolicy") == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            own.clone_from(&sidecars);
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut largest, &own);
    }
    raise(&mut total, &largest);
    let whole = amounts(pod, &format!("/spec{pointer}"));
    total.extend(whole.into_iter().filter(|(name, _)| matches!(*name, "cpu" | "memory")));
    total
}

fn add<'a>(total: &mut Amounts<'a>, more: &Amounts<'a>) {
    for (name, amount) in more {
        let sum = total.get(name).map_or(*amount, |before| before.plus(amount));
        total.insert(name, sum);
    }
}

fn raise<'a>(least: &mut Amounts<'a>, others: &Amounts<'a>) {
    for (name, amount) in others {
        let raised = |before: &Quantity| amount.compare(before).is_gt();
        if least.get(name).is_none_or(raised) {
            least.insert(name, *amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn init_containers_run_before_the_others_and_sidecars_beside_them() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let mut sidecar = container("100m");
        sidecar["restartPolicy"] = "Always".into();
        let cpu = |init: Value| {
            let pod =
                json!({ "spec": { "containers": [container("300m"), container("200m")], "initContainers": init } });
            of(&pod, "requests").get("cpu").map(ToString::to_string)
        };
        assert_eq!(cpu(json!([])).as_deref(), Some("500m"));
        assert_eq!(cpu(json!([container("400m")])).as_deref(), Some("500m"));
        assert_eq!(cpu(json!([container("900m")])).as_deref(), Some("900m"));
        assert_eq!(cpu(json!([sidecar])).as_deref(), Some("600m"));
        assert_eq!(cpu(json!([sidecar, container("900m")])).as_deref(), Some("1"));
    }
}
