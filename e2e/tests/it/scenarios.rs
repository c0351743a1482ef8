//! Every scenario in virtual time with production's timeouts, over a few seeds.

use rstest::rstest;

use crate::drydock::{said, simulate};

#[rstest]
#[case::lifecycle("lifecycle")]
#[case::vm_dies("vm_dies")]
#[case::create_errors("create_errors")]
#[case::kubelet_pause("kubelet_pause")]
#[case::crash("crash")]
#[case::initialize("initialize")]
#[case::delete_while_creating("delete_while_creating")]
#[case::drain("drain")]
#[case::drain_timeout("drain_timeout")]
#[case::flaky_cloud("flaky_cloud")]
#[case::edits("edits")]
#[case::node_deleted("node_deleted")]
#[case::vm_deleted("vm_deleted")]
#[case::foreign_nodes("foreign_nodes")]
#[case::hand_made("hand_made")]
#[case::failover("failover")]
#[case::rolling_restart("rolling_restart")]
#[case::evictions_under_budget("evictions_under_budget")]
#[case::volumes_move("volumes_move")]
#[case::daemons_survive("daemons_survive")]
#[case::unreachable_node("unreachable_node")]
#[case::unreachable_volume("unreachable_volume")]
#[case::reserve_gives_way("reserve_gives_way")]
#[case::namespace_goes("namespace_goes")]
#[case::blocked_drains("blocked_drains")]
#[case::cascade("cascade")]
#[case::drain_moves_volumes("drain_moves_volumes")]
#[case::drain_one_by_one("drain_one_by_one")]
#[case::drain_retries("drain_retries")]
#[case::gated_start("gated_start")]
#[case::half_frozen("half_frozen")]
#[case::hot_update("hot_update")]
#[case::in_place("in_place")]
#[case::life_of_a_deployment("life_of_a_deployment")]
#[case::node_annotated("node_annotated")]
#[case::node_template("node_template")]
#[case::pause("pause")]
#[case::recreate("recreate")]
#[case::roll_back("roll_back")]
#[case::roll_out("roll_out")]
#[case::scale_in_the_midst("scale_in_the_midst")]
#[case::set_without_deployment("set_without_deployment")]
fn the_scenario_passes_with_every_seed(#[case] name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (output, runs) = simulate(folder.path(), &[name, "--seeds", "3"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("3 passed, 0 failed"), "{}", said(&output));
    assert_eq!(runs.len(), 3);
}

#[test]
fn no_scenario_is_left_out_of_this_file() {
    let tested = include_str!("scenarios.rs");
    for scenario in e2e::scenarios() {
        assert!(
            tested.contains(&format!("(\"{}\")", scenario.name)),
            "{} has no case",
            scenario.name
        );
    }
}

#[test]
fn each_injected_error_struck_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_, runs) = simulate(folder.path(), &["create_errors", "--seed", "4"]);
    assert_eq!(
        runs[0]["faults"],
        serde_json::json!({ "broken": 1, "outage": 1, "quota": 1 }),
        "{}",
        runs[0]
    );
}
