//! Whether a pod may stay on a node with these taints, and for how long.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Why the controller acts on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It does not tolerate a taint, or its toleration time is over.
    Evicted,
    /// The taint was removed or became tolerated before the pod was evicted.
    Reprieved,
}

/// The consequence of the taints for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod may stay.
    Stays,
    /// The pod may stay for this time.
    StaysFor(SignedDuration),
    /// The pod must be evicted.
    Evict,
}

/// Evaluates the `NoExecute` taints of a node against a pod's tolerations. The shortest matching toleration
/// counts.
pub fn verdict(taints: &[&Taint], tolerations: &[Toleration]) -> Verdict {
    let mut shortest = None;
    for taint in taints {
        let Some(used) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Verdict::Evict;
        };
        if let Some(seconds) = used.toleration_seconds {
            shortest = Some(shortest.map_or(seconds, |known: i64| known.min(seconds)));
        }
    }
    match shortest {
        None => Verdict::Stays,
        Some(seconds) if seconds <= 0 => Verdict::Evict,
        Some(seconds) => Verdict::StaysFor(SignedDuration::from_secs(seconds)),
    }
}

/// The rule of <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    let value = taint.value.as_deref().unwrap_or_default();
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => !key.is_empty() && toleration.value.as_deref().unwrap_or_default() == value,
        _ => false,
    }
}
