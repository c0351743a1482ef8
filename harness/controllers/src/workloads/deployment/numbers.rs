//! The numbers of a rollout (replicas, surge, unavailability), and the annotations that record them on sets.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::workloads::meta::{Rounding, amount};

/// Annotation: the deployment's replicas when the set was last scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation: the deployment's maximum number of pods at that time, including surge.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// The desired number of pods.
pub fn replicas(spec: &DeploymentSpec) -> i32 {
    spec.replicas.unwrap_or(1)
}

/// Whether all old pods terminate before a new one starts.
pub fn is_recreate(spec: &DeploymentSpec) -> bool {
    strategy(spec) == "Recreate"
}

fn strategy(spec: &DeploymentSpec) -> &str {
    let strategy = spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
    strategy.unwrap_or("RollingUpdate")
}

/// The maximum number of pods above the desired number.
pub fn max_surge(spec: &DeploymentSpec) -> i32 {
    if is_recreate(spec) { 0 } else { fenceposts(spec).0 }
}

/// The maximum number of unavailable pods.
pub fn max_unavailable(spec: &DeploymentSpec) -> i32 {
    if is_recreate(spec) || replicas(spec) == 0 {
        return 0;
    }
    fenceposts(spec).1.min(replicas(spec))
}

/// Surge rounds up, unavailability rounds down; if both are zero, one pod may be unavailable, so that the
/// rollout can progress.
fn fenceposts(spec: &DeploymentSpec) -> (i32, i32) {
    let rolling = spec
        .strategy
        .as_ref()
        .and_then(|strategy| strategy.rolling_update.as_ref());
    let part = |value: Option<&IntOrString>, rounding| {
        let quarter = IntOrString::String("25%".to_owned());
        amount(value.unwrap_or(&quarter), replicas(spec), rounding)
    };
    let surge = part(rolling.and_then(|rolling| rolling.max_surge.as_ref()), Rounding::Up);
    let unavailable = part(
        rolling.and_then(|rolling| rolling.max_unavailable.as_ref()),
        Rounding::Down,
    );
    if surge == 0 && unavailable == 0 {
        (0, 1)
    } else {
        (surge, unavailable)
    }
}
