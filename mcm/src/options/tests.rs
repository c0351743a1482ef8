//! Tests of the flags: names, defaults, accepted and rejected values.

use clap::{Command, FromArgMatches};
use rstest::rstest;

use super::*;

fn command() -> Command {
    Options::augment_args(Command::new("mcm"))
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let arguments = std::iter::once("mcm").chain(arguments.iter().copied());
    let matches = command()
        .try_get_matches_from(arguments)
        .map_err(|error| error.to_string())?;
    Options::from_arg_matches(&matches).map_err(|error| error.to_string())
}

#[test]
fn without_flags_the_defaults_apply() {
    assert_eq!(parse(&[]).unwrap(), Options::default());
    Options::default().validate().unwrap();
}

#[test]
fn every_flag_has_a_help_text_and_a_default() {
    let shown: Vec<String> = command()
        .get_arguments()
        .map(|argument| {
            assert!(argument.get_help().is_some(), "{argument} has no help");
            let default: Vec<_> = argument
                .get_default_values()
                .iter()
                .map(|value| value.to_string_lossy())
                .collect();
            format!("--{}={}", argument.get_long().unwrap_or_default(), default.join(","))
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    --driver=
    --driver-provider=
    --driver-listen=
    --controllers=machine,safety,set,deployment
    --autoscaler-scaledown-annotation-during-rollout=true
    --honour-min-ready-seconds=false
    --namespace=default
    --control-kubeconfig=
    --target-kubeconfig=
    --kube-api-qps=0
    --kube-api-burst=30
    --concurrent-syncs=50
    --address=0.0.0.0
    --port=10258
    --metrics-address=
    --v=0
    --log-format=text
    --driver-tls-ca=
    --driver-tls-cert=
    --driver-tls-key=
    --driver-tls-server-name=
    --machine-creation-timeout=20m0s
    --machine-health-timeout=10m0s
    --machine-drain-timeout=2h0m0s
    --machine-max-evict-retries=
    --machine-pv-detach-timeout=2m0s
    --machine-pv-reattach-timeout=1m30s
    --machine-inplace-update-timeout=20m0s
    --node-conditions=KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable
    --bootstrap-token-auth-extra-groups=
    --machine-preserve-timeout=72h0m0s
    --preservation-dialect=v2
    --preserve-fencing=none
    --machine-safety-orphan-vms-period=30m0s
    --machine-safety-max-orphan-vms=30
    --machine-safety-apiserver-statuscheck-timeout=30s
    --machine-safety-apiserver-statuscheck-period=1m0s
    --max-unhealthy-exclusive=false
    --machine-health-check-interval=15s
    --machine-health-check-outage-grace=1m0s
    --safety-up=2
    --safety-down=1
    --machine-safety-overshooting-period=1m0s
    --cloud-provider=
    --min-resync-period=12h0m0s
    --controller-start-interval=0s
    --kube-api-content-type=application/vnd.kubernetes.protobuf
    --leader-elect-resource-lock=leases
    --log-flush-frequency=5s
    --vmodule=
    --conflict-retry=200ms
    --short-retry=5s
    --medium-retry=3m0s
    --long-retry=10m0s
    --eviction-retry=20s
    --resource-exhausted-retry=10m0s
    --leader-elect=true
    --leader-elect-lease-duration=15s
    --leader-elect-renew-deadline=10s
    --leader-elect-retry-period=2s
    ");
}

#[rstest]
#[case::on_without_a_value("--leader-elect", true)]
#[case::on("--leader-elect=true", true)]
#[case::off("--leader-elect=false", false)]
fn leader_election_is_enabled_and_disabled_as_upstream(#[case] flag: &str, #[case] enabled: bool) {
    assert_eq!(parse(&[flag]).unwrap().leader_election.enabled, enabled);
}

#[test]
fn durations_have_go_syntax() {
    let options = parse(&["--machine-health-timeout=1h30m", "--conflict-retry=50ms"]).unwrap();
    assert_eq!(options.machine.health_timeout, seconds(5400));
    assert_eq!(options.retry.conflict, GoDuration(Duration::from_millis(50)));
}

#[rstest]
#[case::no_unit("--machine-health-timeout=10", "write for example 300ms, 90s, 10m or 1h30m")]
#[case::negative("--short-retry=-5s", "negative")]
#[case::unknown_controller(
    "--controllers=machine,elevator",
    "[possible values: machine, safety, set, deployment, machinehealthcheck]"
)]
#[case::not_an_address("--address=localhost", "--address")]
#[case::not_a_port("--metrics-address=127.0.0.1", "--metrics-address")]
#[case::misspelt("--machine-healt-timeout=1m", "--machine-health-timeout")]
fn an_invalid_value_is_rejected(#[case] flag: &str, #[case] hint: &str) {
    let error = parse(&[flag]).unwrap_err();
    assert!(error.contains(hint), "{error}");
}

#[test]
fn all_violations_are_reported_together_each_with_its_flag() {
    let options = parse(&[
        "--port=0",
        "--concurrent-syncs=0",
        "--kube-api-qps=-1",
        "--namespace=",
        "--target-kubeconfig=none",
        "--short-retry=0",
        "--leader-elect-renew-deadline=15s",
        "--leader-elect-retry-period=15s",
    ]);
    let error = options.unwrap().validate_program().unwrap_err().0;
    let flags = [
        "--namespace",
        "--port",
        "--concurrent-syncs",
        "--kube-api-qps",
        "--control-kubeconfig",
        "--short-retry",
        "--leader-elect-renew-deadline",
        "--leader-elect-retry-period",
        "--driver",
    ];
    assert_eq!(error.len(), flags.len(), "{error:#?}");
    for (line, flag) in error.iter().zip(flags) {
        assert!(line.starts_with(flag), "{line}");
    }
}

#[test]
fn an_absent_kubeconfig_is_reported() {
    let options = parse(&["--driver=grpc://localhost:1", "--control-kubeconfig=/no/such/file"]).unwrap();
    let error = options.validate_program().unwrap_err();
    assert_eq!(error.0, ["--control-kubeconfig=/no/such/file: there is no such file"]);
}

#[rstest]
#[case::not_encrypted(&["--driver=grpc://10.0.0.1:1"], &["use grpcs://10.0.0.1:1 with certificates"])]
#[case::no_files(&["--driver=grpcs://cloud:1"], &["--driver-tls-ca is missing", "--driver-tls-cert is missing", "--driver-tls-key is missing"])]
#[case::one_file(&["--driver=grpcs://cloud:1", "--driver-tls-ca=/x", "--driver-tls-cert=/x"], &["--driver-tls-key is missing"])]
#[case::absent_files(
    &["--driver=grpcs://cloud:1", "--driver-tls-ca=/no/ca", "--driver-tls-cert=/no/crt", "--driver-tls-key=/no/key"],
    &["the certificate authority /no/ca is not usable"]
)]
#[case::files_without_encryption(&["--driver=grpc://localhost:1", "--driver-tls-ca=/x"], &["grpcs:// only"])]
fn a_driver_off_loopback_needs_usable_certificates(#[case] arguments: &[&str], #[case] expected: &[&str]) {
    let error = parse(arguments).unwrap().validate_program().unwrap_err().0;
    assert_eq!(error.len(), expected.len(), "{error:#?}");
    for (line, part) in error.iter().zip(expected) {
        assert!(line.starts_with("--driver") && line.contains(part), "{line}");
    }
}

#[test]
fn without_leader_election_its_periods_are_not_validated() {
    let options = parse(&["--leader-elect=false", "--leader-elect-retry-period=1h"]).unwrap();
    options.validate().unwrap();
}

#[rstest]
#[case::v2("--preservation-dialect=v2", PreservationDialect::V2)]
#[case::upstream("--preservation-dialect=upstream", PreservationDialect::Upstream)]
#[case::off("--preservation-dialect=off", PreservationDialect::Off)]
fn the_dialect_of_preservation_is_parsed(#[case] flag: &str, #[case] expected: PreservationDialect) {
    assert_eq!(parse(&[flag]).unwrap().preservation.dialect, expected);
}

#[rstest]
#[case::none("--preserve-fencing=none", PreserveFencing::None)]
#[case::stop_vm("--preserve-fencing=stop-vm", PreserveFencing::StopVm)]
fn the_fencing_of_preserved_machines_is_parsed(#[case] flag: &str, #[case] expected: PreserveFencing) {
    assert_eq!(parse(&[flag]).unwrap().preservation.fencing, expected);
}
