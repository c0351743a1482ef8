//! Every planted fault fails the case of its rule, and no case of another rule.

use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Seed};
use driver_suite::{CASES, Limits, Report, Session, random_prefix};
use fakecloud::{Config, Fakecloud};
use rstest::rstest;
use tokio_util::sync::CancellationToken;

use crate::planted::{Fault, Planted};
use crate::{SHORT, fakecloud_inputs, reason, run_all};

fn planted(fault: Fault) -> Planted {
    let cloud = Fakecloud::new(Config::default(), Clock::wall(), Seed::new(1));
    Planted::new(fault, Arc::new(cloud.driver()))
}

async fn run(fault: Fault) -> Report {
    run_all(planted(fault), fakecloud_inputs()).await
}

#[rstest]
#[case::second_vm(
    Fault::SecondVm,
    &["create-repeated", "create-concurrent", "create-lost-response", "leftovers"],
    "CreateMachine returned VM"
)]
#[case::remembers_late(
    Fault::RemembersLate,
    &["create-concurrent", "create-lost-response", "leftovers"],
    "for the same machine"
)]
#[case::status_internal(Fault::StatusInternal, &["status-unknown"], "Internal: machine default/suite-")]
#[case::list_ignores_tags(Fault::ListIgnoresTags, &["list-other-cluster"], "another cluster contains VM")]
#[case::delete_missing_fails(
    Fault::DeleteMissingFails,
    &["delete-repeated", "delete-unknown", "foreign-provider-id"],
    "DeleteMachine failed with NotFound"
)]
#[case::delete_leaves_vm(
    Fault::DeleteLeavesVm,
    &["delete-removes", "delete-repeated", "delete-by-provider-id", "leftovers"],
    "after a successful DeleteMachine GetMachineStatus finds VM"
)]
#[case::delete_by_name(
    Fault::DeleteByName,
    &["delete-by-provider-id"],
    "with the provider id of a deleted VM"
)]
#[case::trusts_provider_id(Fault::TrustsProviderId, &["foreign-provider-id"], "exists, but")]
#[case::secret_in_error(Fault::SecretInError, &["error-secrets"], "contains the value of the Secret's key apiToken")]
#[case::unknown_for_invalid_class(
    Fault::UnknownForInvalidClass,
    &["error-invalid-class", "error-other-provider"],
    "CreateMachine failed with Unknown"
)]
#[case::accepts_other_providers(
    Fault::AcceptsOtherProviders,
    &["error-other-provider"],
    "from a class of another provider"
)]
#[case::foreign_volumes(Fault::ForeignVolumes, &["volumes-foreign"], "volume-of-another-provider")]
#[case::no_node_name(
    Fault::NoNodeName,
    &["create-identity", "status-created", "stop-repeated"],
    "no node name"
)]
#[case::other_node_name(Fault::OtherNodeName, &["status-created"], "returned the node name \"another\"")]
#[case::initialize_once(Fault::InitializeOnce, &["initialize-repeated"], "already initialized")]
#[case::update_refuses_same(Fault::UpdateRefusesSame, &["update-repeated"], "nothing to change")]
#[case::stop_without_power(Fault::StopWithoutPower, &["stop-repeated"], "does not return a VM with power stopped")]
#[case::stop_without_effect(Fault::StopWithoutEffect, &["stop-repeated"], "returns the VM with power running")]
#[case::stop_of_nothing(Fault::StopOfNothing, &["stop-unknown"], "for a machine without a VM")]
#[tokio::test]
async fn a_planted_fault_fails_the_cases_of_its_rule(
    #[case] fault: Fault,
    #[case] expected: &[&str],
    #[case] text: &str,
) {
    let report = run(fault).await;
    assert_eq!(report.failed().collect::<Vec<_>>(), expected, "{report:#?}");
    let reason = reason(&report, expected[0]);
    assert!(reason.contains(text), "{reason}");
}

#[tokio::test]
async fn a_list_without_machine_names_fails() {
    let report = run(Fault::ListNamesVms).await;
    let reason = reason(&report, "list-created");
    assert!(
        reason.contains("ListMachines does not contain VM fakecloud:///"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_missing_answer_fails_within_the_limit() {
    let limits = Limits {
        call: Duration::from_millis(300),
        ..SHORT
    };
    let driver = Arc::new(planted(Fault::NoAnswer));
    let session = Session::new(driver, fakecloud_inputs(), limits, random_prefix().unwrap()).unwrap();
    let report = driver_suite::run(&session, CASES, &CancellationToken::new(), |_| {}).await;
    for case in ["status-unknown", "deadlines"] {
        let reason = reason(&report, case);
        assert!(
            reason.contains("GetMachineStatus did not answer within 300ms"),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn vms_that_cannot_be_deleted_are_reported_with_their_names() {
    let report = run(Fault::DeleteLeavesVm).await;
    assert!(!report.leftovers.is_empty());
    let text = report.leftovers[0].to_string();
    assert!(
        text.starts_with("VM fakecloud:///local-1/") && text.contains(" of machine suite-"),
        "{text}"
    );
}

#[tokio::test]
async fn no_reason_contains_a_secret_value() {
    let report = run(Fault::SecretInError).await;
    let reasons = format!("{report:?}");
    assert!(!reasons.contains("secret-value-of"), "{reasons}");
}
