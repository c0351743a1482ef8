//! Generates `deploy/monitoring/grafana-mcm.json`, a Grafana dashboard, from a table of panels.
//!
//! `DRYDOCK_WRITE_DOCS=1 cargo test --workspace --lib grafana` writes it.

use std::path::Path;

use monitoring::{Board, Row, panel};

use super::tests::all_metrics;

/// The rows of the dashboard, from what an operator asks first.
const ROWS: [Row; 5] = [
    (
        "Machines",
        &[
            panel(
                "Machines by phase",
                "none",
                &[
                    ("count(mcm_machine_current_status_phase == 1) or vector(0)", "Running"),
                    (
                        "count(mcm_machine_current_status_phase == 0) or vector(0)",
                        "Pending and others",
                    ),
                    ("count(mcm_machine_current_status_phase == -1) or vector(0)", "Unknown"),
                    (
                        "count(mcm_machine_current_status_phase == -2) or vector(0)",
                        "CrashLoopBackOff",
                    ),
                    ("count(mcm_machine_current_status_phase == -3) or vector(0)", "Failed"),
                    (
                        "count(mcm_machine_current_status_phase == -4) or vector(0)",
                        "Terminating",
                    ),
                    (
                        "count(mcm_machine_current_status_phase == -5) or vector(0)",
                        "Failed and preserved",
                    ),
                ],
            ),
            panel(
                "Machines, sets and deployments",
                "none",
                &[
                    ("max(mcm_machine_items_total)", "machines"),
                    ("max(mcm_machine_set_items_total)", "sets"),
                    ("max(mcm_machine_deployment_items_total)", "deployments"),
                ],
            ),
            panel(
                "Replaced machines per hour",
                "none",
                &[
                    (
                        "sum(increase(mcm_machine_stale_machines_total[1h]))",
                        "unhealthy for too long",
                    ),
                    ("sum(increase(mcm_machine_num_failed_join[1h]))", "did not join in time"),
                ],
            ),
        ],
    ),
    (
        "Durations of the last machine",
        &[
            panel(
                "Creation",
                "s",
                &[
                    (
                        "max by (machine_deployment) (mcm_machine_create_duration_seconds)",
                        "{{machine_deployment}}: VM created",
                    ),
                    (
                        "max by (machine_deployment) (mcm_machine_join_duration_seconds)",
                        "{{machine_deployment}}: node healthy",
                    ),
                ],
            ),
            panel(
                "Deletion",
                "s",
                &[
                    (
                        "max by (machine_deployment) (mcm_machine_drain_duration_seconds)",
                        "{{machine_deployment}}: drained",
                    ),
                    (
                        "max by (machine_deployment) (mcm_machine_delete_duration_seconds)",
                        "{{machine_deployment}}: VM deleted",
                    ),
                ],
            ),
        ],
    ),
    (
        "Preservation",
        &[
            panel(
                "Preserved machines",
                "none",
                &[(
                    "sum by (machine_deployment, phase) (mcm_preserved_machines)",
                    "{{machine_deployment}} {{phase}}",
                )],
            ),
            panel(
                "Used places",
                "percentunit",
                &[(
                    "mcm_preservation_places_used / (mcm_preservation_places_maximum > 0)",
                    "{{kind}} {{name}}",
                )],
            ),
            panel(
                "Refused per hour, by reason",
                "none",
                &[(
                    "sum by (reason) (increase(mcm_preservations_refused_total[1h]))",
                    "{{reason}}",
                )],
            ),
        ],
    ),
    (
        "Cloud and API servers",
        &[
            panel(
                "Calls to the driver",
                "reqps",
                &[(
                    "sum by (service) (rate(mcm_cloud_api_requests_total[5m]))",
                    "{{service}}",
                )],
            ),
            panel(
                "Failed calls to the driver",
                "reqps",
                &[(
                    "sum by (service) (rate(mcm_cloud_api_requests_failed_total[5m]))",
                    "{{service}}",
                )],
            ),
            panel(
                "Requests to API servers, by code",
                "reqps",
                &[(
                    "sum by (cluster, code) (rate(mcm_kube_api_requests_total[5m]))",
                    "{{cluster}} {{code}}",
                )],
            ),
        ],
    ),
    (
        "Safety",
        &[
            panel(
                "Leaders, and frozen",
                "none",
                &[
                    ("sum(mcm_leader)", "leaders"),
                    ("max(mcm_machine_controller_frozen)", "frozen"),
                ],
            ),
            panel(
                "Orphan VMs per hour, by outcome",
                "none",
                &[("sum by (outcome) (increase(mcm_orphan_vms_total[1h]))", "{{outcome}}")],
            ),
            panel(
                "Lateness of the leader (99th percentile)",
                "s",
                &[(
                    "histogram_quantile(0.99, sum by (le) (rate(mcm_leader_election_renewal_lateness_seconds_bucket[10m])))",
                    "lateness",
                )],
            ),
        ],
    ),
];

const BOARD: Board = Board {
    uid: "drydock-mcm",
    title: "Machine Controller Manager",
    tag: "mcm",
    rows: &ROWS,
};

/// A renamed metric must not leave a panel empty.
#[test]
fn the_panels_use_metrics_that_exist() {
    let text = all_metrics();
    let (missing, found) = BOARD.missing_metrics(&["mcm_"], &text);
    assert!(missing.is_empty(), "{missing:?} are not in\n{text}");
    assert!(found >= 20, "{found}");
}

#[test]
fn the_dashboard_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/monitoring/grafana-mcm.json");
    assert!(
        monitoring::is_current(&path, &BOARD.text()).unwrap(),
        "{} is stale: DRYDOCK_WRITE_DOCS=1 cargo test --workspace --lib grafana writes it",
        path.display()
    );
}
