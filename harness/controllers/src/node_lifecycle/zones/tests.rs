use kube::api::ObjectMeta;
use rstest::rstest;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn limits() -> Limits {
    Limits::default()
}

fn zone(name: &str) -> Zone {
    Zone {
        region: "r".to_owned(),
        zone: name.to_owned(),
    }
}

#[rstest]
#[case::empty(0, 0, State::Normal)]
#[case::all_good(3, 0, State::Normal)]
#[case::the_only_node(0, 1, State::FullDisruption)]
#[case::no_healthy_node(0, 60, State::FullDisruption)]
#[case::two_of_three_are_few(1, 2, State::Normal)]
#[case::three_of_four(1, 3, State::PartialDisruption)]
#[case::just_below_the_share(46, 54, State::Normal)]
#[case::the_share_itself(9, 11, State::PartialDisruption)]
fn the_state_of_a_zone_depends_on_its_unhealthy_nodes(
    #[case] good: usize,
    #[case] bad: usize,
    #[case] expected: State,
) {
    assert_eq!(state(good, bad, &limits()), expected);
}

#[rstest]
#[case::normal(State::Normal, 51, Some(10))]
#[case::fully_disrupted(State::FullDisruption, 3, Some(10))]
#[case::small_and_partly_disrupted(State::PartialDisruption, 50, None)]
#[case::large_and_partly_disrupted(State::PartialDisruption, 51, Some(100))]
fn each_zone_state_has_a_rate(#[case] state: State, #[case] size: usize, #[case] seconds: Option<i64>) {
    assert_eq!(interval(state, size, &limits()), seconds.map(SignedDuration::from_secs));
}

#[rstest]
#[case::none(&[], "", "")]
#[case::zone_alone(&[("topology.kubernetes.io/zone", "a")], "", "a")]
#[case::both(&[("topology.kubernetes.io/zone", "a"), ("topology.kubernetes.io/region", "r")], "r", "a")]
#[case::old_names_first(
    &[("topology.kubernetes.io/zone", "a"), ("failure-domain.beta.kubernetes.io/zone", "b")], "", "b"
)]
fn labels_determine_the_zone_of_a_node(#[case] labels: &[(&str, &str)], #[case] region: &str, #[case] zone: &str) {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let node = Node {
        metadata: ObjectMeta {
            labels: Some(labels.collect()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    let expected = Zone {
        region: region.to_owned(),
        zone: zone.to_owned(),
    };
    assert_eq!(Zone::of(&node), expected);
}

/// A cluster whose nodes are named `ZONE-NUMBER`; every permitted node is tainted immediately.
struct Cluster {
    zones: Zones,
    nodes: BTreeMap<String, (Readiness, Permission)>,
    excluded: Vec<String>,
    /// The changes of permissions, as `SECOND NODE`, with a minus for a withdrawal.
    narrative: Vec<String>,
    returns: Vec<i64>,
}

impl Cluster {
    fn of(sizes: &[(&str, usize)]) -> Self {
        let names = sizes
            .iter()
            .flat_map(|(zone, size)| (0..*size).map(move |number| format!("{zone}-{number:02}")));
        Self {
            zones: Zones::default(),
            nodes: names
                .map(|name| (name, (Readiness::Good, Permission::default())))
                .collect(),
            excluded: Vec::new(),
            narrative: Vec::new(),
            returns: Vec::new(),
        }
    }

    fn turn(&mut self, readiness: Readiness, prefix: &str, count: usize) {
        let nodes = self.nodes.iter_mut().filter(|(name, _)| name.starts_with(prefix));
        for (_, node) in nodes.take(count) {
            node.0 = readiness;
        }
    }

    fn apply(&mut self, second: i64, verdict: &Verdict) {
        for (name, permission) in &verdict.permissions {
            let Some(node) = self.nodes.get_mut(name) else {
                continue;
            };
            let had = matches!(node.1, Permission::Granted | Permission::Used);
            match permission {
                Permission::Granted => {
                    self.narrative.push(format!("{second} {name}"));
                    node.1 = Permission::Used;
                }
                other => {
                    if had {
                        self.narrative.push(format!("{second} -{name}"));
                    }
                    node.1 = *other;
                }
            }
        }
    }

    fn look(&mut self, second: i64) -> Option<Timestamp> {
        let reports: Vec<NodeReport<'_>> = self
            .nodes
            .iter()
            .map(|(name, (readiness, permission))| NodeReport {
                name,
                zone: zone(name.split('-').next().unwrap()),
                readiness: *readiness,
                counts: !self.excluded.contains(name),
                permission: *permission,
                is_tainted: *permission == Permission::Used,
            })
            .collect();
        let verdict = self.zones.look(&reports, at(second), &limits());
        if verdict.recovered {
            self.returns.push(second);
        }
        self.apply(second, &verdict);
        verdict.next
    }

    /// Monitors every 5 s until `second`, and grants permissions when they are due.
    fn run(&mut self, seconds: std::ops::RangeInclusive<i64>) {
        let mut next = None;
        for second in seconds {
            if second % 5 == 0 {
                next = self.look(second);
            }
            while next.is_some_and(|moment| moment <= at(second)) {
                let verdict = self.zones.grant(at(second));
                self.apply(second, &verdict);
                next = verdict.next;
            }
        }
    }
}

#[test]
fn unhealthy_nodes_of_a_zone_are_tainted_one_by_one_independent_of_other_zones() {
    let mut cluster = Cluster::of(&[("a", 9), ("b", 9)]);
    cluster.run(0..=9);
    cluster.turn(Readiness::Bad, "a", 3);
    cluster.turn(Readiness::Bad, "b", 2);
    cluster.run(10..=60);
    assert_eq!(
        cluster.narrative,
        ["10 a-00", "10 b-00", "20 a-01", "20 b-01", "30 a-02"]
    );
}

#[test]
fn no_node_of_a_small_partly_disrupted_zone_is_tainted_before_it_is_normal() {
    let mut cluster = Cluster::of(&[("a", 5), ("b", 1)]);
    cluster.run(0..=4);
    cluster.turn(Readiness::Bad, "a", 3);
    cluster.run(5..=600);
    assert!(cluster.narrative.is_empty(), "{:?}", cluster.narrative);
    cluster.turn(Readiness::Good, "a", 1);
    cluster.run(601..=640);
    // The bucket of a new rate starts empty.
    assert_eq!(cluster.narrative, ["615 a-01", "625 a-02"]);
}

#[test]
fn nodes_of_a_large_partly_disrupted_zone_are_tainted_slowly() {
    let mut cluster = Cluster::of(&[("a", 51), ("b", 1)]);
    cluster.run(0..=4);
    cluster.turn(Readiness::Bad, "a", 30);
    cluster.run(5..=300);
    assert_eq!(cluster.narrative, ["5 a-00", "105 a-01", "205 a-02"]);
}

#[test]
fn a_fully_disrupted_zone_is_tainted_at_the_normal_rate_while_another_is_healthy() {
    let mut cluster = Cluster::of(&[("a", 3), ("b", 1)]);
    cluster.run(0..=4);
    cluster.turn(Readiness::Bad, "a", 3);
    cluster.run(5..=60);
    assert_eq!(cluster.narrative, ["5 a-00", "15 a-01", "25 a-02"]);
}

#[test]
fn a_full_disruption_of_all_zones_withdraws_permissions_until_one_recovers() {
    let mut cluster = Cluster::of(&[("a", 2), ("b", 1)]);
    cluster.run(0..=4);
    cluster.turn(Readiness::Bad, "a", 2);
    cluster.run(5..=40);
    cluster.turn(Readiness::Bad, "b", 1);
    cluster.run(41..=400);
    assert_eq!(cluster.narrative, ["5 a-00", "15 a-01", "45 -a-00", "45 -a-01"]);
    assert!(cluster.returns.is_empty());
    cluster.turn(Readiness::Good, "b", 1);
    cluster.run(401..=450);
    assert_eq!(cluster.narrative[4..], ["415 a-00", "425 a-01"]);
    assert_eq!(cluster.returns, [405]);
}

#[test]
fn nodes_that_join_a_fully_disrupted_cluster_change_nothing() {
    let mut cluster = Cluster::of(&[("a", 1)]);
    cluster.run(0..=4);
    cluster.turn(Readiness::Bad, "a", 1);
    cluster.run(5..=20);
    for name in ["a-50", "c-00"] {
        let node = (Readiness::Unstated, Permission::default());
        cluster.nodes.insert(name.to_owned(), node);
        cluster.run(21..=60);
    }
    cluster.turn(Readiness::Bad, "c", 1);
    cluster.run(61..=120);
    assert!(cluster.narrative.is_empty(), "{:?}", cluster.narrative);
}

#[test]
fn excluded_nodes_are_tainted_at_the_rate_but_do_not_count() {
    let mut cluster = Cluster::of(&[("a", 5), ("b", 1)]);
    cluster.excluded = vec!["a-00".to_owned(), "a-01".to_owned()];
    cluster.run(0..=4);
    cluster.turn(Readiness::Bad, "a", 4);
    cluster.run(5..=60);
    assert_eq!(cluster.narrative, ["5 a-00", "15 a-01", "25 a-02", "35 a-03"]);
}

#[test]
fn a_removed_taint_is_granted_again_at_the_zones_rate() {
    let mut cluster = Cluster::of(&[("a", 3)]);
    cluster.run(0..=4);
    cluster.turn(Readiness::Bad, "a", 1);
    cluster.run(5..=30);
    let report = NodeReport {
        name: "a-00",
        zone: zone("a"),
        readiness: Readiness::Bad,
        counts: true,
        permission: Permission::Used,
        is_tainted: false,
    };
    assert_eq!(after(&report), Permission::Withheld);
    let on_its_way = NodeReport {
        permission: Permission::Granted,
        ..report
    };
    assert_eq!(after(&on_its_way), Permission::Granted, "the write is in progress");
}

#[test]
fn zones_without_nodes_are_forgotten() {
    let mut cluster = Cluster::of(&[("a", 3), ("b", 3)]);
    cluster.run(0..=4);
    cluster.nodes.retain(|name, _| name.starts_with('b'));
    cluster.run(5..=9);
    assert_eq!(cluster.zones.known.keys().collect::<Vec<_>>(), [&zone("b")]);
}
