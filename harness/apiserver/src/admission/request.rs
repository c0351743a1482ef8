//! The request that policies and webhooks decide about.

use serde_json::{Map, Value, json};

use crate::identity::Identity;
use crate::policies::Target;
use crate::reviewer::{Operation, Subject};

/// A kind in a version of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl Kind {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// What a request says about itself, beside the objects.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) target: Target,
    /// Whether the objects of the resource belong to namespaces.
    pub(crate) is_namespaced: bool,
    pub(crate) user: Identity,
    pub(crate) dry_run: bool,
    /// The options of the write, without their kind.
    pub(crate) options: Map<String, Value>,
}

impl Request {
    /// Whether the request is about a namespace itself.
    pub(crate) fn is_about_namespace(&self) -> bool {
        self.target.group.is_empty() && self.target.resource == "namespaces"
    }

    /// Whether policies and webhooks must not decide about the request: they could prevent their own repair.
    pub(crate) fn is_exempt(&self) -> bool {
        const EXEMPT: [&str; 6] = [
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ];
        self.target.group == "admissionregistration.k8s.io" && EXEMPT.contains(&self.target.resource.as_str())
    }

    /// The name of the namespace that the request is in. A namespace is in itself.
    pub(crate) fn namespace<'a>(&self, subject: &Subject<'a>) -> &'a str {
        if self.is_about_namespace() {
            subject.name
        } else {
            subject.namespace
        }
    }

    fn options_of(&self, subject: &Subject<'_>) -> Value {
        let kind = match subject.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut options = self.options.clone();
        options.insert("kind".to_owned(), kind.into());
        options.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
        options.into()
    }

    /// An `AdmissionRequest` without its uid and objects, seen as that kind and resource.
    pub(crate) fn describe(&self, subject: &Subject<'_>, kind: &Kind, target: &Target) -> Map<String, Value> {
        let kind_of = |kind: &Kind| json!({ "group": kind.group, "version": kind.version, "kind": kind.kind });
        let resource_of =
            |target: &Target| json!({ "group": target.group, "version": target.version, "resource": target.resource });
        let mut request = Map::new();
        let mut put = |field: &str, value: Value| {
            if value != "" {
                request.insert(field.to_owned(), value);
            }
        };
        put("kind", kind_of(kind));
        put("resource", resource_of(target));
        put("subResource", target.subresource.as_str().into());
        put("requestKind", kind_of(&self.kind));
        put("requestResource", resource_of(&self.target));
        put("requestSubResource", self.target.subresource.as_str().into());
        put("name", subject.name.into());
        put("namespace", self.namespace(subject).into());
        put("operation", subject.operation.name().into());
        put("userInfo", self.user.info());
        put("dryRun", self.dry_run.into());
        put("options", self.options_of(subject));
        request
    }
}
