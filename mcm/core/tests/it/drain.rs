//! Drain: the order and retries of evictions, and the waits for pods and volumes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{AttachedVolume, PersistentVolumeSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use mcm_api::{GoDuration, NodeName, Phase, Preservation, PreservationStage, PreservedBy, State, keys};
use mcm_core::machine::{
    Action, Answer, Budget, DrainMemory, EvictionOutcome, Failure, NodeView, Plan, Pod, Reason, Stage, View,
};
use rstest::rstest;

use crate::fixtures::*;

/// A drain that began at [`start`], of a node that is cordoned and has the terminating condition.
fn draining(pods: &[Pod]) -> View {
    let mut view = deleting(Stage::Drain.phrase());
    let mut conditions = healthy();
    conditions.push(condition("Terminating", "True"));
    view = with_conditions(view, &conditions);
    if let NodeView::Present(node) = &mut view.node {
        let node = Arc::make_mut(node);
        node.spec.as_mut().unwrap().unschedulable = Some(true);
    }
    view.pods = Some(pods.to_vec());
    view
}

/// A pod with one volume named after it.
fn pod_with_volume(name: &str) -> Pod {
    Pod {
        claims: true,
        volumes: vec![format!("pv-{name}")],
        grace: secs(30),
        ..pod(name)
    }
}

fn at(seconds: i64) -> Timestamp {
    start().checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

#[test]
fn a_drain_ends_only_after_a_list_from_the_api_server() {
    let cached = View {
        pods_listed: false,
        ..draining(&[])
    };
    let plan = decided(&cached, at(1));
    let node = NodeName::try_from(NAME).unwrap();
    assert_eq!(plan.actions.last(), Some(&Action::ListPods { node }));
    assert!(plan.status.is_none(), "the controller waits for the list");
    let listed = View {
        pods_listed: true,
        ..draining(&[pod("a")])
    };
    let plan = decided(&listed, at(1));
    assert!(matches!(plan.actions.last(), Some(Action::EvictPod { .. })), "{plan:?}");
}

#[test]
fn pods_of_an_unobserved_node_are_evicted_only_after_its_cordon() {
    let view = View {
        node: NodeView::Absent,
        ..draining(&[pod("a")])
    };
    let node = NodeName::try_from(NAME).unwrap();
    let cordon = Action::CordonNode { node };
    assert_eq!(decided(&view, at(1)).actions, std::slice::from_ref(&cordon));
    let failed = |not_found| View {
        failure: Some(Failure {
            action: cordon.clone(),
            conflict: false,
            not_found,
            message: "refused".to_owned(),
        }),
        ..view.clone()
    };
    let evicts = |view: &View| {
        let actions = decided(view, at(1)).actions;
        actions.iter().any(|action| matches!(action, Action::EvictPod { .. }))
    };
    let absent = failed(true);
    assert!(evicts(&absent), "the Node does not exist");
    let mut evicted = View {
        failure: None,
        ..absent.clone()
    };
    evicted.drain = decided(&absent, at(1)).drain.unwrap();
    evicted.drain.attempted(&pod("a").uid, at(1), EvictionOutcome::Accepted);
    assert!(
        !decided(&evicted, at(2)).actions.contains(&cordon),
        "no pod is evicted now"
    );
    assert!(!evicts(&failed(false)), "the Node may exist");
    let empty = View {
        pods: Some(Vec::new()),
        ..view.clone()
    };
    assert!(
        !decided(&empty, at(1)).actions.contains(&cordon),
        "no pod has to be evicted"
    );
}

#[test]
fn a_pod_missing_from_the_cache_is_not_evicted_again_at_once() {
    let mut view = draining(&[pod("a")]);
    view.drain = decided(&view, at(1)).drain.unwrap();
    let uid = pod("a").uid;
    view.drain.attempted(&uid, at(1), EvictionOutcome::Refused);
    let cached = View {
        pods_listed: false,
        pods: Some(Vec::new()),
        ..view.clone()
    };
    let plan = decided(&cached, at(2));
    assert!(matches!(plan.actions.last(), Some(Action::ListPods { .. })), "{plan:?}");
    view.drain = plan.drain.unwrap();
    let plan = decided(&view, at(2));
    assert!(
        !plan
            .actions
            .iter()
            .any(|action| matches!(action, Action::EvictPod { .. })),
        "{plan:?}"
    );
}

/// Simulates a drain of one node. `answers` determines the results of evictions; every other action succeeds.
struct Drain {
    view: View,
    now: Timestamp,
    /// Answers to the next evictions of a pod; later evictions are accepted.
    answers: BTreeMap<String, Vec<EvictionOutcome>>,
    /// Evictions and deletions of pods, with the second.
    requests: Vec<String>,
    /// Written descriptions, without consecutive duplicates.
    descriptions: Vec<String>,
}

impl Drain {
    fn new(pods: &[Pod]) -> Self {
        let mut view = draining(pods);
        for volume in pods.iter().flat_map(|pod| &pod.volumes) {
            view.volumes.insert(volume.clone(), PersistentVolumeSpec::default());
        }
        Self {
            view,
            now: start(),
            answers: BTreeMap::new(),
            requests: Vec::new(),
            descriptions: Vec::new(),
        }
    }

    /// A drain of a failed machine that is preserved, whose kubelet still terminates pods.
    fn of_a_preservation(pods: &[Pod]) -> Self {
        let mut drain = Self::new(pods);
        let machine = &mut drain.view.machine;
        machine.metadata.deletion_timestamp = None;
        machine.status.current_status.phase = Some(Phase::Failed);
        machine.status.preservation = Some(Preservation {
            by: PreservedBy::Machine,
            stage: PreservationStage::Draining,
            since: Some(Time(start())),
            request: "when-failed".to_owned(),
            ..Preservation::default()
        });
        let annotations = machine.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::PRESERVE_ANNOTATION.to_owned(), "when-failed".to_owned());
        let conditions = [condition("Ready", "True"), condition("DiskPressure", "True")];
        drain.view = with_conditions(drain.view, &conditions);
        if let NodeView::Present(node) = &mut drain.view.node {
            let node = Arc::make_mut(node);
            node.spec.get_or_insert_default().taints = Some(vec![taint(keys::PRESERVED_TAINT)]);
            node.metadata.annotations = Some(BTreeMap::from([
                (keys::SCALE_DOWN_DISABLED_ANNOTATION.to_owned(), "true".to_owned()),
                (keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION.to_owned(), String::new()),
            ]));
        }
        drain
    }

    fn refusing(mut self, pod: &str, times: usize) -> Self {
        self.answers
            .insert(pod.to_owned(), vec![EvictionOutcome::Refused; times]);
        self
    }

    /// Sets the machine's drain timeout in seconds and its eviction retries.
    fn limited(mut self, timeout: Option<u64>, retries: Option<i32>) -> Self {
        let configuration = &mut self.view.machine.spec.configuration;
        configuration.drain_timeout = timeout.map(|seconds| GoDuration(secs(seconds)));
        configuration.max_evict_retries = retries;
        self
    }

    fn attach(&mut self, ids: &[&str]) {
        let NodeView::Present(node) = &mut self.view.node else {
            return;
        };
        let node = Arc::make_mut(node);
        let volume = |id: &&str| AttachedVolume {
            name: format!("kubernetes.io/csi/x^{id}"),
            device_path: String::new(),
        };
        node.status.as_mut().unwrap().volumes_attached = Some(ids.iter().map(volume).collect());
    }

    /// Decides and performs until there is nothing to do now; returns the last plan.
    fn settle(&mut self) -> Plan {
        for _ in 0..50 {
            let plan = decided(&self.view, self.now);
            self.view.answers.clear();
            if let Some(memory) = &plan.drain {
                self.view.drain = memory.clone();
            }
            if plan.status.is_some() {
                self.descriptions.push(written(&plan).3);
                self.descriptions.dedup();
            }
            let mut again = false;
            for action in &plan.actions {
                again |= self.perform(action);
            }
            if !again {
                return plan;
            }
        }
        panic!("the drain does not settle: {:?}", self.requests);
    }

    /// Performs the action; returns whether another decision follows at once.
    fn perform(&mut self, action: &Action) -> bool {
        let second = self.now.as_second() - start().as_second();
        match action {
            Action::EvictPod { name, uid, .. } => {
                self.requests.push(format!("{second} evict {name}"));
                let answers = self.answers.entry(name.clone()).or_default();
                let answer = if answers.is_empty() {
                    EvictionOutcome::Accepted
                } else {
                    answers.remove(0)
                };
                let accepted = answer == EvictionOutcome::Accepted;
                self.view.drain.attempted(uid, self.now, answer);
                if accepted {
                    self.end(uid);
                }
                !accepted
            }
            Action::DeletePod { name, uid, grace, .. } => {
                let by_force = if *grace == Some(0) { " by force" } else { "" };
                self.requests.push(format!("{second} delete {name}{by_force}"));
                self.view.drain.attempted(uid, self.now, EvictionOutcome::Accepted);
                if *grace == Some(0) {
                    self.view.pods.as_mut().unwrap().retain(|pod| pod.uid != *uid);
                } else {
                    self.end(uid);
                }
                *grace == Some(0) || self.view.drain.by_force.is_some()
            }
            Action::AskVolumeIds(volumes) => {
                let ids = volumes.keys().map(|name| (name.clone(), name.replace("pv", "vol")));
                self.view.answers.push(Answer::VolumeIds(ids.collect()));
                true
            }
            _ => false,
        }
    }

    /// The pod terminates after its grace period.
    fn end(&mut self, uid: &str) {
        let ends = self.now.checked_add(secs(30)).unwrap();
        for pod in self.view.pods.as_mut().unwrap().iter_mut().filter(|pod| pod.uid == uid) {
            pod.ends = Some(ends);
        }
    }

    fn remove_pod(&mut self, name: &str) {
        self.view.pods.as_mut().unwrap().retain(|pod| pod.name != name);
    }

    fn advance(&mut self, time: Duration) {
        self.now = self.now.checked_add(time).unwrap();
    }

    /// Sleeps until the drain ends or until `until`; returns the description that ended the drain.
    fn sleep_until(&mut self, until: Timestamp) -> String {
        loop {
            let plan = self.settle();
            if let Some(text) = ended(&plan) {
                return text;
            }
            self.advance(plan.wake.unwrap());
            if self.now > until {
                return String::new();
            }
            // Evicted pods terminate when their grace period is over.
            let now = self.now;
            self.view
                .pods
                .as_mut()
                .unwrap()
                .retain(|pod| pod.ends.is_none_or(|ends| ends > now));
        }
    }

    fn take_requests(&mut self) -> Vec<String> {
        std::mem::take(&mut self.requests)
    }
}

/// The description with which a plan leaves the drain.
fn ended(plan: &Plan) -> Option<String> {
    let status = plan.status.as_ref()?;
    (Stage::of(status) != Some(Stage::Drain)).then(|| written(plan).3)
}

#[test]
fn pods_without_volumes_are_evicted_in_parallel_and_not_retried_on_each_event() {
    let mut drain = Drain::new(&[pod("a"), pod("b"), pod("c")]).refusing("b", 1);
    drain.settle();
    assert_eq!(drain.take_requests(), ["0 evict a", "0 evict b", "0 evict c"]);
    drain.remove_pod("a");
    drain.advance(secs(5));
    drain.settle();
    assert!(
        drain.take_requests().is_empty(),
        "an event of a pod does not retry evictions"
    );
    drain.advance(secs(15));
    drain.settle();
    assert_eq!(drain.take_requests(), ["20 evict b"]);
}

#[test]
fn a_refused_eviction_is_reported_once_with_its_budget() {
    let pod = Pod {
        budgets: vec![Budget {
            name: "shop/web".to_owned(),
            misconfigured: false,
        }],
        ..pod("a")
    };
    let mut drain = Drain::new(&[pod]).refusing("a", 2);
    drain.view.drain.attempted("uid-a", start(), EvictionOutcome::Refused);
    let plan = decided(&drain.view, start());
    let messages: Vec<&String> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::RecordEvent { message, .. } => Some(message),
            _ => None,
        })
        .collect();
    assert_eq!(
        messages,
        [
            "the disruption budget shop/web does not allow the eviction of pod default/a; it is tried again every 20s, \
          360 times at most, and the pod is deleted then"
        ]
    );
    let (_, state, _, description) = written(&plan);
    assert_eq!(state, "Processing", "a satisfiable budget is not an error");
    assert_eq!(
        description,
        "Drain is blocked: the disruption budget shop/web does not allow the eviction of pod default/a. Initiate node drain"
    );
    drain.view.machine.status = plan.status.unwrap();
    drain.view.drain = plan.drain.unwrap();
    let plan = decided(&drain.view, at(1));
    assert!(plan.actions.is_empty() && plan.status.is_none(), "{plan:#?}");
}

#[test]
fn a_refused_eviction_is_reported_again_before_its_event_expires() {
    let mut drain = Drain::new(&[pod("a")]);
    let mut reports = Vec::new();
    for minute in [0, 10, 20, 30, 40, 59, 61] {
        drain
            .view
            .drain
            .attempted("uid-a", at(60 * minute), EvictionOutcome::Refused);
        let plan = decided(&drain.view, at(60 * minute));
        if plan
            .actions
            .iter()
            .any(|action| matches!(action, Action::RecordEvent { .. }))
        {
            reports.push(minute);
        }
        drain.view.drain = plan.drain.unwrap();
    }
    assert_eq!(reports, [0, 30, 61]);
}

#[test]
fn the_last_operation_names_a_blocked_pod_only_while_it_is_blocked() {
    let mut drain = Drain::new(&[pod("a"), pod("b")]);
    for pod in ["uid-a", "uid-b"] {
        drain.view.drain.attempted(pod, start(), EvictionOutcome::Refused);
    }
    let plan = decided(&drain.view, start());
    let description = written(&plan).3;
    assert!(
        description.contains("eviction of pod default/a and of another pod."),
        "{description}"
    );
    drain.view.machine.status = plan.status.unwrap();
    drain.view.drain = plan.drain.unwrap();
    for pod in ["uid-a", "uid-b"] {
        drain.view.drain.attempted(pod, at(20), EvictionOutcome::Accepted);
        drain.end(pod);
    }
    let plan = decided(&drain.view, at(20));
    assert_eq!(written(&plan).3, "Initiate node drain");
}

/// The drain timeout and the eviction retries of the machine, and when a pod whose evictions are refused is deleted.
#[rstest]
#[case::neither(None, None, 7200, "Force Drain successful. Delete Volume Attachments")]
#[case::retries(None, Some(3), 60, "Drain successful. Initiate VM deletion")]
#[case::timeout(Some(600), None, 600, "Force Drain successful. Delete Volume Attachments")]
#[case::a_long_timeout(Some(36_000), None, 36_000, "Force Drain successful. Delete Volume Attachments")]
#[case::both_and_the_retries_are_exhausted_first(Some(600), Some(3), 60, "Drain successful. Initiate VM deletion")]
#[case::both_and_the_timeout_expires_first(
    Some(40),
    Some(300),
    40,
    "Force Drain successful. Delete Volume Attachments"
)]
#[case::no_retries(None, Some(0), 0, "Drain successful. Initiate VM deletion")]
#[case::timeout_shorter_than_one_retry(Some(10), Some(3), 10, "Force Drain successful. Delete Volume Attachments")]
fn eviction_retries_and_drain_timeout_limit_a_drain(
    #[case] timeout: Option<u64>,
    #[case] retries: Option<i32>,
    #[case] second: i64,
    #[case] text: &str,
) {
    let mut drain = Drain::new(&[pod("a")])
        .limited(timeout, retries)
        .refusing("a", usize::MAX >> 50);
    assert_eq!(drain.sleep_until(at(second + 1000)), text);
    let requests = drain.take_requests();
    let by_force = if text.starts_with("Force") { " by force" } else { "" };
    let last = format!("{second} delete a{by_force}");
    assert_eq!(requests.last().unwrap(), &last, "{requests:?}");
    let evictions = requests.len() - 1;
    assert_eq!(
        evictions as i64,
        (second + 19) / 20,
        "one eviction every twenty seconds"
    );
}

#[test]
fn a_pod_with_volumes_is_deleted_in_order_when_its_retries_are_exhausted() {
    let mut drain = Drain::new(&[pod_with_volume("a")]).limited(None, Some(0));
    let plan = drain.settle();
    assert_eq!(drain.take_requests(), ["0 delete a"]);
    assert_eq!(plan.reason, Reason::Draining { waiting: 1 });
    drain.view.attached_elsewhere = ["pv-a".to_owned()].into();
    assert_eq!(drain.sleep_until(at(200)), "Drain successful. Initiate VM deletion");
}

#[test]
fn a_failed_eviction_is_an_error_and_is_retried_soon() {
    let mut drain = Drain::new(&[pod("a")]);
    drain.answers.insert(
        "a".to_owned(),
        vec![EvictionOutcome::Failed("it broke (500 InternalError)".to_owned())],
    );
    let plan = drain.settle();
    assert_eq!(
        written(&plan).3,
        "Drain failed due to - error when evicting pod \"a\": it broke (500 InternalError) scheduled on node \
         worker-x7k2p. Will retry in next sync. Initiate node drain"
    );
    assert_eq!(plan.wake, Some(secs(5)));
    drain.advance(secs(5));
    drain.settle();
    assert_eq!(drain.take_requests(), ["0 evict a", "5 evict a"]);
}

/// A pod with a misconfigured budget, which refuses every eviction.
fn with_misconfigured_budget(name: &str) -> Pod {
    Pod {
        budgets: vec![Budget {
            name: "shop/never".to_owned(),
            misconfigured: true,
        }],
        ..pod(name)
    }
}

#[test]
fn the_drain_error_is_stable_while_evictions_are_retried_in_turn() {
    let mut drain = Drain::new(&[with_misconfigured_budget("a")])
        .refusing("a", 1000)
        .refusing("b", 1000);
    drain.settle();
    drain.advance(secs(5));
    drain.view.pods.as_mut().unwrap().push(with_misconfigured_budget("b"));
    drain.sleep_until(at(120));
    assert_eq!(
        drain.take_requests()[..4],
        ["0 evict a", "5 evict b", "20 evict a", "25 evict b"]
    );
    assert_eq!(
        drain.descriptions.len(),
        2,
        "one for a, then one for both: {:#?}",
        drain.descriptions
    );
}

#[test]
fn a_misconfigured_budget_is_an_error_and_consumes_no_retries() {
    let mut drain = Drain::new(&[with_misconfigured_budget("a")])
        .limited(None, Some(2))
        .refusing("a", 1000);
    let plan = drain.settle();
    assert_eq!(
        written(&plan).3,
        "Drain failed due to - error while evicting pod \"a\": pod disruption budget shop/never is misconfigured and \
         requires zero voluntary evictions. Will retry in next sync. Initiate node drain"
    );
    assert_eq!(written(&plan).1, State::Failed.to_string());
    drain.sleep_until(at(300));
    let requests = drain.take_requests();
    assert!(
        requests.len() >= 14 && requests.iter().all(|request| request.contains("evict")),
        "{requests:?}"
    );
}

#[test]
fn a_pod_that_outlives_its_grace_period_is_an_error() {
    let mut late = pod("a");
    late.ends = Some(at(30));
    let view = draining(&[late]);
    assert_eq!(decided(&view, at(0)).wake, Some(secs(60)));
    let plan = decided(&view, at(60));
    assert_eq!(
        written(&plan).3,
        "Drain failed due to - error when waiting for pod \"a\"/worker-x7k2p terminating: it still exists 30 s after its \
         grace period. Will retry in next sync. Initiate node drain"
    );
}

#[test]
fn pods_with_volumes_are_evicted_one_at_a_time_by_priority() {
    let important = Pod {
        priority: 10,
        ..pod_with_volume("z")
    };
    let mut drain = Drain::new(&[pod_with_volume("a"), pod_with_volume("b"), important]);
    drain.attach(&["vol-a", "vol-b", "vol-z"]);
    drain.settle();
    assert_eq!(drain.take_requests(), ["0 evict z"]);
    drain.advance(secs(20));
    drain.remove_pod("z");
    drain.settle();
    assert!(drain.take_requests().is_empty(), "its volume is still attached");
    drain.attach(&["vol-a", "vol-b"]);
    drain.settle();
    assert!(
        drain.take_requests().is_empty(),
        "its volume is not attached to another node"
    );
    drain.advance(secs(3));
    drain.view.attached_elsewhere = ["pv-z".to_owned()].into();
    drain.settle();
    assert_eq!(drain.take_requests(), ["23 evict a"]);
}

#[rstest]
#[case::of_a_deletion(Drain::new)]
#[case::of_a_preservation(Drain::of_a_preservation)]
fn the_next_pod_is_evicted_when_a_volume_is_not_reattached_in_time(#[case] drain: fn(&[Pod]) -> Drain) {
    let mut drain = drain(&[pod_with_volume("a"), pod_with_volume("b")]);
    drain.settle();
    drain.remove_pod("a");
    drain.advance(secs(1));
    assert_eq!(drain.settle().wake, Some(secs(90)));
    drain.advance(secs(40));
    assert_eq!(drain.settle().wake, Some(secs(50)), "counted from its detachment");
    drain.advance(secs(50));
    assert_eq!(drain.settle().status, None, "the missing attachment is not an error");
    assert_eq!(drain.take_requests(), ["0 evict a", "91 evict b"]);
}

#[rstest]
#[case::the_pod_terminated(true)]
#[case::the_pod_does_not_terminate(false)]
fn a_detach_timeout_is_an_error_and_the_next_pod_is_evicted(#[case] terminated: bool) {
    let mut drain = Drain::new(&[pod_with_volume("a"), pod_with_volume("b")]);
    drain.attach(&["vol-a", "vol-b"]);
    drain.settle();
    if terminated {
        drain.remove_pod("a");
    }
    drain.advance(secs(149));
    assert_eq!(
        drain.settle().wake,
        Some(secs(1)),
        "thirty seconds of grace period and two minutes"
    );
    drain.advance(secs(1));
    let plan = drain.settle();
    assert_eq!(
        written(&plan).3,
        "Drain failed due to - timeout while waiting for PVs to detach from node. Will retry in next sync. Initiate \
         node drain"
    );
    assert_eq!(
        (plan.wake, drain.take_requests()),
        (Some(secs(5)), vec!["0 evict a".to_owned()])
    );
    drain.advance(secs(5));
    drain.settle();
    assert_eq!(drain.take_requests(), ["155 evict b"]);
}

#[test]
fn the_next_pod_with_volumes_is_evicted_when_an_eviction_is_refused() {
    let mut drain = Drain::new(&[pod_with_volume("a"), pod_with_volume("b")]).refusing("a", 1);
    drain.settle();
    assert_eq!(drain.take_requests(), ["0 evict a", "0 evict b"]);
    drain.remove_pod("b");
    drain.view.attached_elsewhere = ["pv-b".to_owned()].into();
    drain.advance(secs(19));
    drain.settle();
    assert!(drain.take_requests().is_empty());
    drain.advance(secs(1));
    drain.settle();
    assert_eq!(drain.take_requests(), ["20 evict a"]);
}

#[rstest]
#[case::of_a_deletion(Drain::new)]
#[case::of_a_preservation(Drain::of_a_preservation)]
fn a_restarted_controller_waits_for_the_pod_that_is_terminating(#[case] drain: fn(&[Pod]) -> Drain) {
    let mut terminating = pod_with_volume("b");
    terminating.ends = Some(at(30));
    let mut drain = drain(&[pod_with_volume("a"), terminating]);
    drain.settle();
    assert!(drain.take_requests().is_empty());
    assert_eq!(drain.view.drain.moving.as_ref().unwrap().uid, "uid-b");
}

#[rstest]
#[case::shared_volumes(vec!["pv-shared".to_owned()], true)]
#[case::unknown_volumes(vec!["pv-unknown".to_owned()], false)]
fn shared_and_unknown_volumes_do_not_delay_a_drain(#[case] volumes: Vec<String>, #[case] known: bool) {
    let pods = ["a", "b"].map(|name| Pod {
        volumes: volumes.clone(),
        ..pod_with_volume(name)
    });
    let mut drain = Drain::new(&pods);
    if !known {
        drain.view.volumes.clear();
    }
    drain.attach(&["vol-shared", "vol-unknown"]);
    drain.settle();
    drain.remove_pod("a");
    drain.settle();
    assert_eq!(drain.take_requests(), ["0 evict a", "0 evict b"]);
}

#[test]
fn volumes_unknown_to_the_cloud_do_not_delay_a_drain() {
    let mut drain = Drain::new(&[pod_with_volume("a"), pod_with_volume("b")]);
    drain.view.drain.volume_ids = ["a", "b"].map(|name| (format!("pv-{name}"), String::new())).into();
    drain.settle();
    drain.remove_pod("a");
    drain.settle();
    assert_eq!(drain.take_requests(), ["0 evict a", "0 evict b"]);
}

#[test]
fn volumes_of_a_deleted_node_do_not_delay_a_drain() {
    let mut drain = Drain::new(&[pod_with_volume("a"), pod_with_volume("b")]);
    drain.view.node = NodeView::Gone;
    drain.settle();
    assert_eq!(drain.take_requests(), ["0 evict a", "0 evict b"]);
}

#[test]
fn the_drain_timeout_interrupts_a_wait_for_volumes() {
    let mut drain = Drain::new(&[pod_with_volume("a"), pod_with_volume("b")]).limited(Some(100), None);
    drain.attach(&["vol-a", "vol-b"]);
    drain.settle();
    drain.remove_pod("a");
    drain.advance(secs(60));
    assert_eq!(drain.settle().wake, Some(secs(40)));
    drain.advance(secs(40));
    assert_eq!(
        ended(&drain.settle()).unwrap(),
        "Force Drain successful. Delete Volume Attachments"
    );
    assert_eq!(drain.take_requests(), ["0 evict a", "100 delete b"]);
}

#[test]
fn the_driver_is_called_once_for_each_volume() {
    let mut drain = Drain::new(&[pod_with_volume("a")]);
    let plan = decided(&drain.view, start());
    assert_eq!(actions(&plan), ["get volume ids of pv-a"]);
    assert_eq!(
        (plan.status, plan.wake),
        (None, None),
        "the controller waits for the answer"
    );
    drain.settle();
    assert_eq!(
        drain.view.drain.volume_ids,
        BTreeMap::from([("pv-a".to_owned(), "vol-a".to_owned())])
    );
}

#[test]
fn drain_state_of_absent_pods_is_removed() {
    let mut view = draining(&[pod("a")]);
    let mut state = DrainMemory::default();
    state.attempted("uid-b", start(), EvictionOutcome::Refused);
    state.given_up.insert("uid-c".to_owned());
    view.drain = state;
    let state = decided(&view, start()).drain.unwrap();
    assert!(state.attempts.is_empty() && state.given_up.is_empty());
}

/// The rows of the specification: healthy and expected pods, allowed disruptions, whether a pod was evicted just now,
/// and whether the budget's status is up to date.
#[rstest]
#[case::spare_budget(3, 3, 1, false, true, false)]
#[case::just_evicted(3, 3, 0, true, true, false)]
#[case::recomputed_and_unhealthy(2, 3, 0, false, true, false)]
#[case::zero_budget_and_all_healthy(3, 3, 0, false, true, true)]
#[case::one_pod_missing(2, 2, 0, true, true, false)]
#[case::stale_status(3, 3, 0, false, false, false)]
#[case::no_pods(0, 0, 0, false, true, false)]
fn a_budget_is_misconfigured_if_it_allows_no_disruption_of_healthy_pods(
    #[case] healthy: i32,
    #[case] expected: i32,
    #[case] allowed: i32,
    #[case] evicted: bool,
    #[case] current: bool,
    #[case] misconfigured: bool,
) {
    let disrupted = evicted.then(|| BTreeMap::from([("a".to_owned(), Time(start()))]));
    let budget = PodDisruptionBudget {
        metadata: ObjectMeta {
            generation: Some(2),
            ..ObjectMeta::default()
        },
        status: Some(PodDisruptionBudgetStatus {
            current_healthy: Some(healthy),
            expected_pods: Some(expected),
            disruptions_allowed: Some(allowed),
            disrupted_pods: disrupted,
            observed_generation: Some(if current { 2 } else { 1 }),
            ..PodDisruptionBudgetStatus::default()
        }),
        ..PodDisruptionBudget::default()
    };
    assert_eq!(Budget::of(&budget).misconfigured, misconfigured);
}
