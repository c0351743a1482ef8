//! Drain: who is asked to go when, how often, and what is waited for.

use std::collections::BTreeMap;
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

/// A drain that began at [`start`], of a node that carries its marks already.
fn draining(pods: &[Pod]) -> View {
    let mut view = deleting(Stage::Drain.phrase());
    let mut conditions = healthy();
    conditions.push(condition("Terminating", "True"));
    view = with_conditions(view, &conditions);
    if let NodeView::Present(node) = &mut view.node {
        node.spec.as_mut().unwrap().unschedulable = Some(true);
    }
    view.pods = Some(pods.to_vec());
    view
}

/// A pod with one volume of its name.
fn moving(name: &str) -> Pod {
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
fn a_drain_ends_on_what_the_api_server_shows_and_not_on_a_cache() {
    let cached = View {
        pods_listed: false,
        ..draining(&[])
    };
    let plan = decided(&cached, at(1));
    let node = NodeName::try_from(NAME).unwrap();
    assert_eq!(plan.actions.last(), Some(&Action::ListPods { node }));
    assert!(plan.status.is_none(), "its answer comes first");
    let late = View {
        pods_listed: true,
        ..draining(&[pod("a")])
    };
    let plan = decided(&late, at(1));
    assert!(matches!(plan.actions.last(), Some(Action::EvictPod { .. })), "{plan:?}");
}

#[test]
fn pods_on_a_node_that_was_never_seen_are_not_evicted_before_it_is_cordoned() {
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
    let gone = failed(true);
    assert!(evicts(&gone), "there is no Node");
    let mut asked = View {
        failure: None,
        ..gone.clone()
    };
    asked.drain = decided(&gone, at(1)).drain.unwrap();
    asked.drain.attempted(&pod("a").uid, at(1), EvictionOutcome::Accepted);
    assert!(
        !decided(&asked, at(2)).actions.contains(&cordon),
        "nobody is sent away now"
    );
    assert!(!evicts(&failed(false)), "whether there is one is not known");
    let empty = View {
        pods: Some(Vec::new()),
        ..view.clone()
    };
    assert!(!decided(&empty, at(1)).actions.contains(&cordon), "nobody has to go");
}

#[test]
fn a_pod_that_the_cache_does_not_show_is_not_asked_again_at_once() {
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

/// A drain over a small node: evictions take effect as `answers` say, everything else as it should.
struct Drain {
    view: View,
    now: Timestamp,
    /// Answers to the evictions of a pod, in turn; then it goes.
    answers: BTreeMap<String, Vec<EvictionOutcome>>,
    /// What was asked, with the second.
    asked: Vec<String>,
    /// What was written of the drain, as often as it was something else.
    said: Vec<String>,
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
            asked: Vec::new(),
            said: Vec::new(),
        }
    }

    /// The same of a machine that failed and is kept: its kubelet still ends pods.
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

    /// The drain of a machine with that limit and that number of evictions.
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
        let volume = |id: &&str| AttachedVolume {
            name: format!("kubernetes.io/csi/x^{id}"),
            device_path: String::new(),
        };
        node.status.as_mut().unwrap().volumes_attached = Some(ids.iter().map(volume).collect());
    }

    /// Decides and performs until there is nothing to do now; gives the last plan.
    fn settle(&mut self) -> Plan {
        for _ in 0..50 {
            let plan = decided(&self.view, self.now);
            self.view.answers.clear();
            if let Some(memory) = &plan.drain {
                self.view.drain = memory.clone();
            }
            if plan.status.is_some() {
                self.said.push(written(&plan).3);
                self.said.dedup();
            }
            let mut again = false;
            for action in &plan.actions {
                again |= self.perform(action);
            }
            if !again {
                return plan;
            }
        }
        panic!("the drain does not come to rest: {:?}", self.asked);
    }

    /// Whether it is to be decided again at once.
    fn perform(&mut self, action: &Action) -> bool {
        let second = self.now.as_second() - start().as_second();
        match action {
            Action::EvictPod { name, uid, .. } => {
                self.asked.push(format!("{second} evict {name}"));
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
            Action::DeletePod { name, uid, .. } => {
                self.asked.push(format!("{second} delete {name}"));
                self.view.drain.attempted(uid, self.now, EvictionOutcome::Accepted);
                self.view.pods.as_mut().unwrap().retain(|pod| pod.uid != *uid);
                true
            }
            Action::AskVolumeIds(volumes) => {
                let ids = volumes.keys().map(|name| (name.clone(), name.replace("pv", "vol")));
                self.view.answers.push(Answer::VolumeIds(ids.collect()));
                true
            }
            _ => false,
        }
    }

    /// The pod ends after its grace period.
    fn end(&mut self, uid: &str) {
        let ends = self.now.checked_add(secs(30)).unwrap();
        for pod in self.view.pods.as_mut().unwrap().iter_mut().filter(|pod| pod.uid == uid) {
            pod.ends = Some(ends);
        }
    }

    fn gone(&mut self, name: &str) {
        self.view.pods.as_mut().unwrap().retain(|pod| pod.name != name);
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.checked_add(time).unwrap();
    }

    /// Sleeps as the plans say until the drain is over or `until`; gives the text it ended with.
    fn sleep_until(&mut self, until: Timestamp) -> String {
        loop {
            let plan = self.settle();
            if let Some(text) = ended(&plan) {
                return text;
            }
            self.pass(plan.wake.unwrap());
            if self.now > until {
                return String::new();
            }
            // What has been evicted has ended when its grace period is over.
            let now = self.now;
            self.view
                .pods
                .as_mut()
                .unwrap()
                .retain(|pod| pod.ends.is_none_or(|ends| ends > now));
        }
    }

    fn take_asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asked)
    }
}

/// The description with which a plan leaves the drain.
fn ended(plan: &Plan) -> Option<String> {
    let status = plan.status.as_ref()?;
    (Stage::of(status) != Some(Stage::Drain)).then(|| written(plan).3)
}

#[test]
fn pods_without_volumes_are_asked_side_by_side_and_left_in_peace_then() {
    let mut drain = Drain::new(&[pod("a"), pod("b"), pod("c")]).refusing("b", 1);
    drain.settle();
    assert_eq!(drain.take_asked(), ["0 evict a", "0 evict b", "0 evict c"]);
    drain.gone("a");
    drain.pass(secs(5));
    drain.settle();
    assert!(drain.take_asked().is_empty(), "each event of a pod asks nobody again");
    drain.pass(secs(15));
    drain.settle();
    assert_eq!(drain.take_asked(), ["20 evict b"]);
}

#[test]
fn a_refused_pod_is_told_of_once_with_its_budget() {
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
    let told: Vec<&String> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::RecordEvent { message, .. } => Some(message),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [
            "the disruption budget shop/web does not allow the eviction of pod default/a; it is tried again every 20s, \
          360 times at most, and the pod is deleted then"
        ]
    );
    assert_eq!(plan.status, None, "a budget that can be met is no error");
    drain.view.drain = plan.drain.unwrap();
    assert!(decided(&drain.view, at(1)).actions.is_empty());
}

/// What the operator sets, what the machine sets, and when a pod that no budget lets go is deleted.
#[rstest]
#[case::neither(None, None, 7200, "Force Drain successful. Delete Volume Attachments")]
#[case::retries(None, Some(3), 60, "Drain successful. Initiate VM deletion")]
#[case::timeout(Some(600), None, 600, "Force Drain successful. Delete Volume Attachments")]
#[case::both_the_retries_are_up_first(Some(600), Some(3), 60, "Drain successful. Initiate VM deletion")]
#[case::both_the_time_is_up_first(Some(40), Some(300), 40, "Force Drain successful. Delete Volume Attachments")]
#[case::no_retries(None, Some(0), 0, "Drain successful. Initiate VM deletion")]
#[case::no_time_for_one(Some(10), Some(3), 0, "Drain successful. Initiate VM deletion")]
fn the_retries_and_the_time_of_a_drain_are_limited(
    #[case] timeout: Option<u64>,
    #[case] retries: Option<i32>,
    #[case] second: i64,
    #[case] text: &str,
) {
    let mut drain = Drain::new(&[pod("a")])
        .limited(timeout, retries)
        .refusing("a", usize::MAX >> 50);
    assert_eq!(drain.sleep_until(at(8000)), text);
    let asked = drain.take_asked();
    assert_eq!(asked.last().unwrap(), &format!("{second} delete a"), "{asked:?}");
    let evictions = asked.len() - 1;
    assert_eq!(evictions as i64, (second + 19) / 20, "one every twenty seconds");
}

#[test]
fn a_pod_with_volumes_is_deleted_in_its_turn_when_its_retries_are_up() {
    let mut drain = Drain::new(&[moving("a")]).limited(None, Some(0));
    let plan = drain.settle();
    assert_eq!(drain.take_asked(), ["0 delete a"]);
    assert_eq!(plan.reason, Reason::Draining { waiting: 1 });
    drain.view.attached_elsewhere = ["pv-a".to_owned()].into();
    assert_eq!(drain.sleep_until(at(60)), "Drain successful. Initiate VM deletion");
}

#[test]
fn an_eviction_that_fails_otherwise_is_an_error_and_soon_repeated() {
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
    drain.pass(secs(5));
    drain.settle();
    assert_eq!(drain.take_asked(), ["0 evict a", "5 evict a"]);
}

/// With a budget that can never be met.
fn stubborn(name: &str) -> Pod {
    Pod {
        budgets: vec![Budget {
            name: "shop/never".to_owned(),
            misconfigured: true,
        }],
        ..pod(name)
    }
}

#[test]
fn what_is_said_stays_while_pods_are_asked_again_by_turns() {
    let mut drain = Drain::new(&[stubborn("a")]).refusing("a", 1000).refusing("b", 1000);
    drain.settle();
    drain.pass(secs(5));
    drain.view.pods.as_mut().unwrap().push(stubborn("b"));
    drain.sleep_until(at(120));
    assert_eq!(
        drain.take_asked()[..4],
        ["0 evict a", "5 evict b", "20 evict a", "25 evict b"]
    );
    assert_eq!(drain.said.len(), 2, "of a, then of both: {:#?}", drain.said);
}

#[test]
fn a_budget_that_can_never_be_met_is_an_error_and_takes_no_chance_away() {
    let mut drain = Drain::new(&[stubborn("a")]).limited(None, Some(2)).refusing("a", 1000);
    let plan = drain.settle();
    assert_eq!(
        written(&plan).3,
        "Drain failed due to - error while evicting pod \"a\": pod disruption budget shop/never is misconfigured and \
         requires zero voluntary evictions. Will retry in next sync. Initiate node drain"
    );
    assert_eq!(written(&plan).1, State::Failed.to_string());
    drain.sleep_until(at(300));
    let asked = drain.take_asked();
    assert!(
        asked.len() >= 14 && asked.iter().all(|asked| asked.contains("evict")),
        "{asked:?}"
    );
}

#[test]
fn a_pod_that_does_not_end_is_an_error_when_it_is_overdue() {
    let mut late = pod("a");
    late.ends = Some(at(30));
    let view = draining(&[late]);
    assert_eq!(decided(&view, at(0)).wake, Some(secs(60)));
    let plan = decided(&view, at(60));
    assert_eq!(
        written(&plan).3,
        "Drain failed due to - error when waiting for pod \"a\"/worker-x7k2p terminating: it is there 30 s after its \
         grace period. Will retry in next sync. Initiate node drain"
    );
}

#[test]
fn pods_with_volumes_go_one_after_another_the_most_important_first() {
    let important = Pod {
        priority: 10,
        ..moving("z")
    };
    let mut drain = Drain::new(&[moving("a"), moving("b"), important]);
    drain.attach(&["vol-a", "vol-b", "vol-z"]);
    drain.settle();
    assert_eq!(drain.take_asked(), ["0 evict z"]);
    drain.pass(secs(20));
    drain.gone("z");
    drain.settle();
    assert!(drain.take_asked().is_empty(), "its volume is still attached");
    drain.attach(&["vol-a", "vol-b"]);
    drain.settle();
    assert!(drain.take_asked().is_empty(), "its volume has not come up elsewhere");
    drain.pass(secs(3));
    drain.view.attached_elsewhere = ["pv-z".to_owned()].into();
    drain.settle();
    assert_eq!(drain.take_asked(), ["23 evict a"]);
}

#[rstest]
#[case::of_a_machine_that_goes(Drain::new)]
#[case::of_a_preservation(Drain::of_a_preservation)]
fn the_next_pod_goes_when_a_volume_does_not_come_up_elsewhere_in_time(#[case] drain: fn(&[Pod]) -> Drain) {
    let mut drain = drain(&[moving("a"), moving("b")]);
    drain.settle();
    drain.gone("a");
    drain.pass(secs(1));
    assert_eq!(drain.settle().wake, Some(secs(90)));
    drain.pass(secs(40));
    assert_eq!(drain.settle().wake, Some(secs(50)), "since it was detached");
    drain.pass(secs(50));
    assert_eq!(drain.settle().status, None, "that is no error");
    assert_eq!(drain.take_asked(), ["0 evict a", "91 evict b"]);
}

#[rstest]
#[case::the_pod_is_gone(true)]
#[case::the_pod_does_not_end(false)]
fn a_volume_that_does_not_detach_in_time_is_an_error_and_then_the_next_pod_goes(#[case] gone: bool) {
    let mut drain = Drain::new(&[moving("a"), moving("b")]);
    drain.attach(&["vol-a", "vol-b"]);
    drain.settle();
    if gone {
        drain.gone("a");
    }
    drain.pass(secs(149));
    assert_eq!(
        drain.settle().wake,
        Some(secs(1)),
        "thirty seconds of grace and two minutes"
    );
    drain.pass(secs(1));
    let plan = drain.settle();
    assert_eq!(
        written(&plan).3,
        "Drain failed due to - timeout while waiting for PVs to detach from node. Will retry in next sync. Initiate \
         node drain"
    );
    assert_eq!(
        (plan.wake, drain.take_asked()),
        (Some(secs(5)), vec!["0 evict a".to_owned()])
    );
    drain.pass(secs(5));
    drain.settle();
    assert_eq!(drain.take_asked(), ["155 evict b"]);
}

#[test]
fn a_pod_with_volumes_that_is_refused_lets_the_next_one_go_first() {
    let mut drain = Drain::new(&[moving("a"), moving("b")]).refusing("a", 1);
    drain.settle();
    assert_eq!(drain.take_asked(), ["0 evict a", "0 evict b"]);
    drain.gone("b");
    drain.view.attached_elsewhere = ["pv-b".to_owned()].into();
    drain.pass(secs(19));
    drain.settle();
    assert!(drain.take_asked().is_empty());
    drain.pass(secs(1));
    drain.settle();
    assert_eq!(drain.take_asked(), ["20 evict a"]);
}

#[rstest]
#[case::of_a_machine_that_goes(Drain::new)]
#[case::of_a_preservation(Drain::of_a_preservation)]
fn a_new_process_waits_for_the_pod_that_its_predecessor_evicted(#[case] drain: fn(&[Pod]) -> Drain) {
    let mut first = moving("b");
    first.ends = Some(at(30));
    let mut drain = drain(&[moving("a"), first]);
    drain.settle();
    assert!(drain.take_asked().is_empty());
    assert_eq!(drain.view.drain.moving.as_ref().unwrap().uid, "uid-b");
}

#[rstest]
#[case::shared_volumes_are_not_waited_for(vec!["pv-shared".to_owned()], true)]
#[case::unknown_volumes_are_not_waited_for(vec!["pv-unknown".to_owned()], false)]
fn volumes_that_tell_nothing_hold_nothing_up(#[case] volumes: Vec<String>, #[case] known: bool) {
    let pods = ["a", "b"].map(|name| Pod {
        volumes: volumes.clone(),
        ..moving(name)
    });
    let mut drain = Drain::new(&pods);
    if !known {
        drain.view.volumes.clear();
    }
    drain.attach(&["vol-shared", "vol-unknown"]);
    drain.settle();
    drain.gone("a");
    drain.settle();
    assert_eq!(drain.take_asked(), ["0 evict a", "0 evict b"]);
}

#[test]
fn volumes_that_the_cloud_does_not_know_are_not_waited_for() {
    let mut drain = Drain::new(&[moving("a"), moving("b")]);
    drain.view.drain.volume_ids = ["a", "b"].map(|name| (format!("pv-{name}"), String::new())).into();
    drain.settle();
    drain.gone("a");
    drain.settle();
    assert_eq!(drain.take_asked(), ["0 evict a", "0 evict b"]);
}

#[test]
fn volumes_of_a_node_that_is_gone_are_not_waited_for() {
    let mut drain = Drain::new(&[moving("a"), moving("b")]);
    drain.view.node = NodeView::Gone;
    drain.settle();
    assert_eq!(drain.take_asked(), ["0 evict a", "0 evict b"]);
}

#[test]
fn the_time_of_a_drain_is_up_in_the_middle_of_a_wait_for_volumes() {
    let mut drain = Drain::new(&[moving("a"), moving("b")]).limited(Some(100), None);
    drain.attach(&["vol-a", "vol-b"]);
    drain.settle();
    drain.gone("a");
    drain.pass(secs(60));
    assert_eq!(drain.settle().wake, Some(secs(40)));
    drain.pass(secs(40));
    assert_eq!(
        ended(&drain.settle()).unwrap(),
        "Force Drain successful. Delete Volume Attachments"
    );
    assert_eq!(drain.take_asked(), ["0 evict a", "100 delete b"]);
}

#[test]
fn the_driver_is_asked_for_each_volume_once() {
    let mut drain = Drain::new(&[moving("a")]);
    let plan = decided(&drain.view, start());
    assert_eq!(actions(&plan), ["ask for pv-a"]);
    assert_eq!((plan.status, plan.wake), (None, None), "its answer is waited for");
    drain.settle();
    assert_eq!(
        drain.view.drain.volume_ids,
        BTreeMap::from([("pv-a".to_owned(), "vol-a".to_owned())])
    );
}

#[test]
fn what_is_remembered_of_pods_that_are_gone_is_forgotten() {
    let mut view = draining(&[pod("a")]);
    let mut memory = DrainMemory::default();
    memory.attempted("uid-b", start(), EvictionOutcome::Refused);
    memory.given_up.insert("uid-c".to_owned());
    view.drain = memory;
    let memory = decided(&view, start()).drain.unwrap();
    assert!(memory.attempts.is_empty() && memory.given_up.is_empty());
}

/// The rows of the specification: healthy and expected pods, allowed disruptions, whether a pod was evicted just now,
/// and whether the numbers are of today.
#[rstest]
#[case::spare_budget(3, 3, 1, false, true, false)]
#[case::just_evicted(3, 3, 0, true, true, false)]
#[case::recomputed_and_unhealthy(2, 3, 0, false, true, false)]
#[case::zero_budget_and_all_healthy(3, 3, 0, false, true, true)]
#[case::one_pod_gone(2, 2, 0, true, true, false)]
#[case::stale_numbers(3, 3, 0, false, false, false)]
#[case::no_pods(0, 0, 0, false, true, false)]
fn a_budget_is_misconfigured_when_it_allows_nothing_though_all_is_well(
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
