//! The condition Available of an APIService, with the reasons and messages of kube-aggregator.

use serde_json::{Value, json};

use super::Registration;
use crate::network::Missing;

/// A condition without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Available {
    is_available: bool,
    reason: &'static str,
    message: String,
}

impl Available {
    fn no(reason: &'static str, message: String) -> Self {
        Self {
            is_available: false,
            reason,
            message,
        }
    }

    /// This server serves the group version itself.
    pub(crate) fn local() -> Self {
        Self {
            is_available: true,
            reason: "Local",
            message: "Local APIServices are always available".to_owned(),
        }
    }

    /// The other server answered the check.
    pub(crate) fn passed() -> Self {
        Self {
            is_available: true,
            reason: "Passed",
            message: "all checks passed".to_owned(),
        }
    }

    /// The check of the other server failed.
    pub(crate) fn failed(message: String) -> Self {
        Self::no("FailedDiscoveryCheck", message)
    }

    /// The service of the other server has no address.
    pub(crate) fn unreachable(registration: &Registration, what: &Missing) -> Self {
        let service = &registration.service;
        let of = format!("service/{} in {:?}", service.name, service.namespace);
        match what {
            Missing::Service => Self::no("ServiceNotFound", format!("{of} is not present")),
            Missing::Port => Self::no(
                "ServicePortError",
                format!("{of} is not listening on port {}", service.port),
            ),
            Missing::Slices => Self::no("EndpointsNotFound", format!("cannot find endpointslices for {of}")),
            Missing::Endpoint { port_name } => Self::no(
                "MissingEndpoints",
                format!("endpointslices for {of} have no addresses with port name {port_name:?}"),
            ),
        }
    }

    /// Puts the condition into the status of an APIService. Returns whether that changes it.
    pub(crate) fn put(&self, api_service: &mut Value, now: &str) -> bool {
        let status = if self.is_available { "True" } else { "False" };
        let mut condition = json!({
            "type": "Available", "status": status, "lastTransitionTime": now, "reason": self.reason, "message": self.message,
        });
        let stored = api_service
            .pointer_mut("/status/conditions")
            .and_then(Value::as_array_mut);
        let Some(conditions) = stored else {
            api_service["status"] = json!({ "conditions": [condition] });
            return true;
        };
        match conditions.iter_mut().find(|stored| stored["type"] == "Available") {
            Some(stored) => {
                if stored["status"] == status {
                    condition["lastTransitionTime"] = stored["lastTransitionTime"].clone();
                }
                let is_changed = *stored != condition;
                *stored = condition;
                is_changed
            }
            None => {
                conditions.push(condition);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_is_the_same() {
        let mut object = json!({ "spec": {} });
        assert!(Available::failed("one".to_owned()).put(&mut object, "1"));
        assert!(Available::failed("other".to_owned()).put(&mut object, "2"));
        assert_eq!(
            object.pointer("/status/conditions/0/lastTransitionTime"),
            Some(&json!("1"))
        );
        assert!(Available::passed().put(&mut object, "3"));
        assert!(!Available::passed().put(&mut object, "4"));
        let expected = json!([{
            "type": "Available", "status": "True", "lastTransitionTime": "3",
            "reason": "Passed", "message": "all checks passed",
        }]);
        assert_eq!(object["status"]["conditions"], expected);
    }
}
