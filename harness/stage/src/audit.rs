//! Records the requests of mcm and fakecloud to the embedded API server as RBAC accesses, and the denied ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apiserver::authorization::Action;
use apiserver::faults;
use apiserver::observe::{FaultRecord, Observer, RequestRecord};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use parking_lot::Mutex;
use scenario::observation::Request;
use scenario::result::Access;

use crate::deploy::{FAKECLOUD_ACCOUNT, MCM_ACCOUNT};

/// Observes every request; clones share their state.
#[derive(Clone, Debug)]
pub struct Audit {
    prefix: String,
    /// Namespaces that namespaced roles cover. Pods and their claims may be in any namespace.
    fixed: [String; 3],
    seen: Arc<Mutex<Seen>>,
    /// Receive mcm's requests that concern one object.
    followers: Arc<Mutex<Vec<UnboundedSender<Request>>>>,
    /// The number of mcm's open watches.
    watches: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Seen {
    accesses: BTreeSet<Access>,
    refused: BTreeSet<String>,
    /// Requests that fault rules let the server deny, and that have no response yet: client, verb and path.
    injected: Vec<(String, String, String)>,
}

impl Audit {
    /// Observes the service accounts of `namespace`.
    pub fn new(namespace: &str) -> Self {
        Self {
            prefix: format!("system:serviceaccount:{namespace}:"),
            fixed: [namespace, "kube-system", "kube-node-lease"].map(str::to_owned),
            seen: Arc::default(),
            followers: Arc::default(),
            watches: Arc::default(),
        }
    }

    /// Streams mcm's future requests that concern one object.
    pub fn follow(&self) -> UnboundedReceiver<Request> {
        let (sender, receiver) = unbounded();
        self.followers.lock().push(sender);
        receiver
    }

    fn notify_followers(&self, access: &Access, record: &RequestRecord<'_>) {
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

    /// The number of watches that mcm has open.
    pub fn open_watches(&self) -> u64 {
        self.watches.load(Ordering::Relaxed)
    }

    fn is_mcm(&self, client: &str) -> bool {
        client.strip_prefix(&self.prefix) == Some(MCM_ACCOUNT)
    }

    /// All accesses that the server did not deny.
    pub fn accesses(&self) -> BTreeSet<Access> {
        self.seen.lock().accesses.clone()
    }

    /// Descriptions of the requests that roles deny (403).
    pub fn refused(&self) -> BTreeSet<String> {
        self.seen.lock().refused.clone()
    }

    /// The access that a request uses. `None` if another client sent it, or if it concerns no resource.
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
    fn watch_opened(&self, client: &str) {
        if self.is_mcm(client) {
            self.watches.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn watch_ended(&self, client: &str) {
        if self.is_mcm(client) {
            self.watches.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn fault(&self, record: &FaultRecord<'_>) {
        let facts = record.facts;
        let is_denial = matches!(record.action, faults::Action::Fail { code: 403, .. });
        if let Some(verb) = facts.verb.filter(|_| is_denial) {
            let request = (facts.client.clone(), verb.word().to_owned(), facts.path.clone());
            self.seen.lock().injected.push(request);
        }
    }

    fn request(&self, record: &RequestRecord<'_>) {
        let Some(access) = self.access(record) else { return };
        self.notify_followers(&access, record);
        let mut seen = self.seen.lock();
        if record.code == 403 {
            let path = record.path.split('?').next().unwrap_or_default();
            let is_this = |(client, verb, of): &(String, String, String)| {
                (client.as_str(), verb.as_str(), of.as_str()) == (record.client, record.verb, path)
            };
            if let Some(index) = seen.injected.iter().position(is_this) {
                seen.injected.swap_remove(index);
                return;
            }
            seen.refused.insert(format!("{access} ({path})"));
        } else {
            seen.accesses.insert(access);
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver::authorization::ResourceAction;
    use apiserver::faults::{At, Class, Facts, Freshness, Verb};
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
    #[case::core_group("", "nodes", "status", "", "nodes/status in the whole cluster")]
    #[case::named_group(
        "machine.sapcloud.io",
        "machines",
        "",
        "ns",
        "machines.machine.sapcloud.io in namespace ns"
    )]
    #[case::shared_namespace("", "secrets", "", "kube-system", "secrets in namespace kube-system")]
    #[case::unknown_namespace("", "events", "", "theirs", "events in the whole cluster")]
    #[case::pods_in_any_namespace("", "pods", "eviction", "ns", "pods/eviction in the whole cluster")]
    fn a_request_is_recorded_as_the_rule_that_allows_it(
        #[case] group: &str,
        #[case] resource: &str,
        #[case] subresource: &str,
        #[case] namespace: &str,
        #[case] expected: &str,
    ) {
        let audit = Audit::new("ns");
        let action = action(group, resource, subresource, namespace);
        audit.request(&record("system:serviceaccount:ns:fakecloud", &action, 200));
        let accesses: Vec<String> = audit.accesses().iter().map(ToString::to_string).collect();
        assert_eq!(accesses, [format!("fakecloud: get {expected}")]);
    }

    /// A fault rule denies `get secrets` of mcm.
    fn deny(audit: &Audit, client: &str) {
        let facts = Facts {
            client: client.to_owned(),
            agent: String::new(),
            verb: Some(Verb::Get),
            group: String::new(),
            resource: "secrets".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            object: "some".to_owned(),
            freshness: Freshness::Newest,
            path: "/some/path".to_owned(),
        };
        let action = faults::Action::Fail {
            code: 403,
            at: At::BeforeCommit,
            retry_after: None,
            message: None,
        };
        audit.fault(&FaultRecord {
            rule: "denied",
            action: &action,
            class: Class::Legal,
            facts: &facts,
        });
    }

    #[test]
    fn a_request_that_a_fault_denies_is_not_refused_by_roles() {
        let audit = Audit::new("ns");
        let mcm = "system:serviceaccount:ns:machine-controller-manager";
        let secrets = action("", "secrets", "", "");
        deny(&audit, mcm);
        audit.request(&record(mcm, &secrets, 403));
        assert_eq!(audit.refused().len(), 0);
        audit.request(&record(mcm, &secrets, 403));
        assert_eq!(audit.refused().len(), 1, "the next one is denied by roles");
    }

    #[test]
    fn denied_requests_are_no_accesses_and_other_clients_are_ignored() {
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
