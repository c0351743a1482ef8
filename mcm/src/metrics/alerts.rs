//! Generates `deploy/monitoring/alerts.yaml`, alerting rules for Prometheus, from a table.
//!
//! `DRYDOCK_WRITE_DOCS=1 cargo test --workspace --lib alerts` writes it.

use std::path::Path;

use monitoring::{Alert, AlertGroup, Severity};

use super::tests::all_metrics;

const GROUP: AlertGroup = AlertGroup {
    name: "machine-controller-manager",
    comment: "\
# Alerting rules for Prometheus (rule_files, or the spec of a PrometheusRule). Preserved machines cause no warning: the
# phase of a failed machine that is preserved is -5, not -3. Generated from mcm/src/metrics/alerts.rs.",
    alerts: &[
        Alert {
            name: "MachineControllerHasNoLeader",
            query: "sum(mcm_leader) < 1 or absent(mcm_leader)",
            after: "2m",
            severity: Severity::Critical,
            summary: "No machine-controller-manager leads.",
            description: "No machine is created, deleted or checked. See the log of each replica for the reason.",
        },
        Alert {
            name: "MachineControllerRenewsLate",
            query: "histogram_quantile(0.99, sum by (le) \
                    (rate(mcm_leader_election_renewal_lateness_seconds_bucket[10m]))) > 2",
            after: "10m",
            severity: Severity::Warning,
            summary: "The leader renews its Lease late.",
            description: "The process does not get CPU time. Give it a higher CPU request, or it loses leadership.",
        },
        Alert {
            name: "MachineControllerFrozen",
            query: "mcm_machine_controller_frozen == 1",
            after: "5m",
            severity: Severity::Critical,
            summary: "An API server does not respond, and no VM is created or deleted.",
            description: "",
        },
        Alert {
            name: "MachineStaysFailed",
            query: "mcm_machine_current_status_phase == -3",
            after: "30m",
            severity: Severity::Warning,
            summary: "Machine {{ $labels.name }} is Failed and is not replaced.",
            description: "",
        },
        Alert {
            name: "MachineDoesNotJoin",
            query: "mcm_machine_current_status_phase == -2",
            after: "30m",
            severity: Severity::Warning,
            summary: "The VM of machine {{ $labels.name }} cannot be created.",
            description: "",
        },
        Alert {
            name: "MachineDoesNotEnd",
            query: "mcm_machine_current_status_phase == -4",
            after: "3h",
            severity: Severity::Warning,
            summary: "The deletion of machine {{ $labels.name }} does not end.",
            description: "Its last operation says what blocks it, for example a disruption budget.",
        },
        Alert {
            name: "OrphanVmRefused",
            query: "increase(mcm_orphan_vms_total{outcome=\"refused\"}[1h]) > 0",
            after: "0m",
            severity: Severity::Warning,
            summary: "A VM looked like an orphan, and the API server did not confirm it.",
            description: "",
        },
        Alert {
            name: "DriverCallsFail",
            query: "sum by (provider, service) (rate(mcm_cloud_api_requests_failed_total[15m])) \
                    > 0.5 * sum by (provider, service) (rate(mcm_cloud_api_requests_total[15m]))",
            after: "15m",
            severity: Severity::Warning,
            summary: "More than half of the calls {{ $labels.service }} of {{ $labels.provider }} fail.",
            description: "",
        },
        Alert {
            name: "PreservationEndsSoon",
            query: "mcm_preservation_next_expiry_timestamp_seconds - time() < 3600",
            after: "0m",
            severity: Severity::Info,
            summary: "A preserved machine of {{ $labels.machine_deployment }} is released within an hour.",
            description: "",
        },
        Alert {
            name: "PreservationPlacesInUse",
            query: "mcm_preservation_places_maximum > 0 \
                    and mcm_preservation_places_used >= mcm_preservation_places_maximum",
            after: "15m",
            severity: Severity::Info,
            summary: "Machines of {{ $labels.name }} that fail now are replaced, not preserved.",
            description: "",
        },
    ],
};

/// A renamed metric must not silence an alert.
#[test]
fn the_alerts_use_metrics_that_exist() {
    let text = all_metrics();
    let (missing, found) = GROUP.missing_metrics(&["mcm_"], &text);
    assert!(missing.is_empty(), "{missing:?} are not in\n{text}");
    assert!(found >= 10, "{found}");
}

#[test]
fn the_alerts_are_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/monitoring/alerts.yaml");
    assert!(
        monitoring::is_current(&path, &GROUP.yaml().unwrap()).unwrap(),
        "{} is stale: DRYDOCK_WRITE_DOCS=1 cargo test --workspace --lib alerts writes it",
        path.display()
    );
}
