//! The registration of a group version that another API server serves: an APIService with a service.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::network::Trust;
use crate::service_port::ServicePort;

/// A group version that another API server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Of the APIService.
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) version: String,
    /// Of the group, and of the version in it.
    pub(crate) priorities: (u32, u32),
    /// Where the other server is.
    pub(crate) service: ServicePort,
    /// Which certificates of the other server are accepted.
    pub(crate) trust: Trust,
    /// Whether its condition says that it is available.
    pub(crate) is_available: bool,
}

impl Registration {
    /// Reads an APIService; `None`: this server serves the group version itself.
    pub(crate) fn read(api_service: &Value) -> Option<Self> {
        let service = api_service
            .pointer("/spec/service")
            .filter(|service| service.is_object())?;
        let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or_default();
        let small = |pointer: &str| u32::try_from(number(api_service.pointer(pointer))).unwrap_or_default();
        let authorities = STANDARD.decode(text(api_service, "/spec/caBundle")).unwrap_or_default();
        let skips = api_service.pointer("/spec/insecureSkipTLSVerify") == Some(&Value::Bool(true));
        let conditions = api_service.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        Some(Self {
            name: text(api_service, "/metadata/name").to_owned(),
            group: text(api_service, "/spec/group").to_owned(),
            version: text(api_service, "/spec/version").to_owned(),
            priorities: (small("/spec/groupPriorityMinimum"), small("/spec/versionPriority")),
            service: ServicePort {
                namespace: text(service, "/namespace").to_owned(),
                name: text(service, "/name").to_owned(),
                port: u16::try_from(number(service.get("port"))).unwrap_or(443),
            },
            trust: match (skips, authorities.is_empty()) {
                (true, _) => Trust::Anything,
                (false, true) => Trust::System,
                (false, false) => Trust::Authorities(authorities),
            },
            is_available: conditions.any(|condition| condition["type"] == "Available" && condition["status"] == "True"),
        })
    }

    /// The path of its list of resources.
    pub(crate) fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }

    /// The name that the certificate of the other server must have.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.service.name, self.service.namespace)
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn api_service() -> Value {
        json!({
            "metadata": { "name": "v1.example.com" },
            "spec": {
                "group": "example.com", "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 10,
                "service": { "namespace": "default", "name": "extension", "port": 443 },
            },
        })
    }

    #[test]
    fn an_api_service_with_a_service_names_another_server() {
        let registration = Registration::read(&api_service()).unwrap();
        assert_eq!(registration.path(), "/apis/example.com/v1");
        assert_eq!(registration.host(), "extension.default.svc");
        assert_eq!(registration.service.to_string(), "default/extension:443");
        assert_eq!(registration.priorities, (2000, 10));
        assert!(!registration.is_available);
    }

    #[rstest]
    #[case::of_the_system(json!({}), Trust::System)]
    #[case::bundle(json!({ "caBundle": "QUJD" }), Trust::Authorities(b"ABC".to_vec()))]
    #[case::anything(json!({ "insecureSkipTLSVerify": true }), Trust::Anything)]
    fn it_says_which_certificates_count(#[case] spec: Value, #[case] expected: Trust) {
        let mut api_service = api_service();
        let fields = api_service["spec"].as_object_mut().unwrap();
        fields.extend(spec.as_object().unwrap().clone());
        assert_eq!(Registration::read(&api_service).unwrap().trust, expected);
    }

    #[test]
    fn a_local_api_service_names_no_other_server() {
        let mut local = api_service();
        local["spec"]["service"].take();
        assert_eq!(Registration::read(&local), None);
    }
}
