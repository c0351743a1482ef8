//! What mcm and fakecloud ask of an API server of ours, in the terms of RBAC, and what they were refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use apiserver::authorization::Action;
use apiserver::observe::{Observer, RequestRecord};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use parking_lot::Mutex;
use scenario::observation::Request;
use scenario::result::Access;

use crate::deploy::{FAKECLOUD_ACCOUNT, MCM_ACCOUNT};

/// Sees every request; clones see the same.
#[derive(Clone, Debug)]
pub struct Audit {
    prefix: String,
    /// Namespaces that are known beforehand. Pods, which are drained wherever they are, and their claims may be in any.
    fixed: [String; 3],
    seen: Arc<Mutex<Seen>>,
    /// Who is told of requests of mcm about one object.
    followers: Arc<Mutex<Vec<UnboundedSender<Request>>>>,
}

#[derive(Debug, Default)]
struct Seen {
    accesses: BTreeSet<Access>,
    refused: BTreeSet<String>,
}

impl Audit {
    /// For service accounts of that namespace.
    pub fn new(namespace: &str) -> Self {
        Self {
            prefix: format!("system:serviceaccount:{namespace}:"),
            fixed: [namespace, "kube-system", "kube-node-lease"].map(str::to_owned),
            seen: Arc::default(),
            followers: Arc::default(),
        }
    }

    /// Requests of mcm about one object from now on.
    pub fn follow(&self) -> UnboundedReceiver<Request> {
        let (sender, receiver) = unbounded();
        self.followers.lock().push(sender);
        receiver
    }

    fn tell(&self, access: &Access, record: &RequestRecord<'_>) {
        let Action::Resource(action) = record.action else {
            return;
        };
        if access.account != MCM_ACCOUNT || action.name.is_empty() {
            return;
        }
        let request = Request {
            verb: access.verb.clone(),
            resource: access.resource.clone(),
            namespace: action.namespace.clone(),
            name: action.name.clone(),
            code: record.code,
        };
        let mut followers = self.followers.lock();
        followers.retain(|follower| follower.unbounded_send(request.clone()).is_ok());
    }

    /// Everything that was asked for and not refused.
    pub fn accesses(&self) -> BTreeSet<Access> {
        self.seen.lock().accesses.clone()
    }

    /// What was refused (403), in words.
    pub fn refused(&self) -> BTreeSet<String> {
        self.seen.lock().refused.clone()
    }

    /// The access that a request is; `None`: it is somebody else's, or about no resource.
    fn access(&self, record: &RequestRecord<'_>) -> Option<Access> {
        let account = record.client.strip_prefix(&self.prefix)?;
        if account != MCM_ACCOUNT && account != FAKECLOUD_ACCOUNT {
            return None;
        }
        let Action::Resource(action) = record.action else {
            return None;
        };
        let resource = match action.subresource.as_str() {
            "" => action.resource.clone(),
            subresource => format!("{}/{subresource}", action.resource),
        };
        let anywhere = matches!(action.resource.as_str(), "pods" | "persistentvolumeclaims");
        let scoped = self.fixed.contains(&action.namespace) && !anywhere;
        Some(Access {
            account: account.to_owned(),
            verb: action.verb.clone(),
            group: action.group.clone(),
            namespace: scoped.then(|| action.namespace.clone()),
            resource,
        })
    }
}

impl Observer for Audit {
    fn request(&self, record: &RequestRecord<'_>) {
        let Some(access) = self.access(record) else { return };
        self.tell(&access, record);
        let mut seen = self.seen.lock();
        if record.code == 403 {
            let path = record.path.split('?').next().unwrap_or_default();
            seen.refused.insert(format!("{access} ({path})"));
        } else {
            seen.accesses.insert(access);
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver::authorization::ResourceAction;
    use rstest::rstest;

    use super::*;

    fn action(group: &str, resource: &str, subresource: &str, namespace: &str) -> Action {
        Action::Resource(ResourceAction {
            verb: "get".to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: "some".to_owned(),
        })
    }

    fn record<'a>(client: &'a str, action: &'a Action, code: u16) -> RequestRecord<'a> {
        RequestRecord {
            client,
            action,
            verb: "get",
            path: "/some/path?query",
            code,
            revision: 1,
        }
    }

    #[rstest]
    #[case::of_the_core("", "nodes", "status", "", "nodes/status in the whole cluster")]
    #[case::of_a_group(
        "machine.sapcloud.io",
        "machines",
        "",
        "ns",
        "machines.machine.sapcloud.io in namespace ns"
    )]
    #[case::in_a_shared_namespace("", "secrets", "", "kube-system", "secrets in namespace kube-system")]
    #[case::in_a_namespace_of_others("", "events", "", "theirs", "events in the whole cluster")]
    #[case::pods_anywhere("", "pods", "eviction", "ns", "pods/eviction in the whole cluster")]
    fn a_request_is_told_as_a_rule_would_be(
        #[case] group: &str,
        #[case] resource: &str,
        #[case] subresource: &str,
        #[case] namespace: &str,
        #[case] said: &str,
    ) {
        let audit = Audit::new("ns");
        let action = action(group, resource, subresource, namespace);
        audit.request(&record("system:serviceaccount:ns:fakecloud", &action, 200));
        let accesses: Vec<String> = audit.accesses().iter().map(ToString::to_string).collect();
        assert_eq!(accesses, [format!("fakecloud: get {said}")]);
    }

    #[test]
    fn a_refusal_is_no_access_and_others_are_not_seen() {
        let audit = Audit::new("ns");
        let mcm = "system:serviceaccount:ns:machine-controller-manager";
        let secrets = action("", "secrets", "", "");
        let version = Action::Path {
            verb: "get".to_owned(),
            path: "/version".to_owned(),
        };
        audit.request(&record(mcm, &secrets, 403));
        audit.request(&record("kubernetes-admin", &secrets, 200));
        audit.request(&record(mcm, &version, 200));
        assert_eq!(audit.accesses().len(), 0);
        let refused: Vec<String> = audit.refused().into_iter().collect();
        assert_eq!(
            refused,
            ["machine-controller-manager: get secrets in the whole cluster (/some/path)"]
        );
    }
}
