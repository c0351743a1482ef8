//! The flags of `mcm`: names and meanings are upstream's, and every flag has a default.
//!
//! It contains [`Options`], their defaults and their validation, which reports all violations together.
//! It must not contain clients or read kubeconfigs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};
use mcm_api::GoDuration;
use mcm_driver::tls::{Tls, TlsFiles};

pub use accepted::AcceptedOptions;
pub use health_check::HealthCheckOptions;
pub use overshoot::OvershootOptions;
pub use preservation::{PreservationDialect, PreservationOptions, PreserveFencing};
pub use safety::SafetyOptions;

/// All command-line flags.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct Options {
    /// Address of the cloud's driver: grpc://HOST:PORT on loopback, grpcs://HOST:PORT anywhere
    #[arg(long, value_name = "ADDRESS", default_value_t = Options::default().driver, hide_default_value = true)]
    pub driver: String,

    /// Provider whose classes and Secrets the driver of --driver receives; empty: any
    #[arg(long, value_name = "PROVIDER", default_value_t = Options::default().driver_provider, hide_default_value = true)]
    pub driver_provider: String,

    /// Address on which drivers register themselves, instead of --driver: plain on loopback, with --driver-tls-*
    /// anywhere
    #[arg(long, value_name = "IP:PORT", num_args = 0..=1, require_equals = true,
        default_missing_value = DRIVER_LISTEN)]
    pub driver_listen: Option<SocketAddr>,

    /// Controllers to run, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = Options::default().controllers)]
    pub controllers: Vec<Controller>,

    /// Keep cluster-autoscaler away from the nodes of a MachineDeployment while it rolls out
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = Options::default().autoscaler_scaledown_annotation_during_rollout,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    pub autoscaler_scaledown_annotation_during_rollout: bool,

    /// Count a machine as available only after minReadySeconds of its set or MachineDeployment
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = Options::default().honour_min_ready_seconds,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    pub honour_min_ready_seconds: bool,

    /// Namespace of machines, classes, their Secrets and the Lease
    #[arg(long, default_value_t = Options::default().namespace)]
    pub namespace: String,

    /// Kubeconfig of the cluster that contains the machines; empty: as --target-kubeconfig;
    /// inClusterConfig: the service account of this pod
    #[arg(long, value_name = "PATH", default_value_t = Options::default().control_kubeconfig)]
    pub control_kubeconfig: String,

    /// Kubeconfig of the cluster that nodes join; empty: the service account of this pod; none: there
    /// is no such cluster
    #[arg(long, value_name = "PATH", default_value_t = Options::default().target_kubeconfig)]
    pub target_kubeconfig: String,

    /// Requests per second to each cluster; 0: no limit
    #[arg(long, value_name = "RATE", default_value_t = Options::default().kube_api_qps)]
    pub kube_api_qps: f32,

    /// Requests beyond --kube-api-qps that may come at once
    #[arg(long, value_name = "COUNT", default_value_t = Options::default().kube_api_burst)]
    pub kube_api_burst: i32,

    /// Keys that are reconciled at the same time
    #[arg(long, value_name = "COUNT", default_value_t = Options::default().concurrent_syncs)]
    pub concurrent_syncs: i32,

    /// Address on which /healthz, /readyz and, without --metrics-address, /metrics are served
    #[arg(long, value_name = "IP", default_value_t = Options::default().address)]
    pub address: IpAddr,

    /// Port of --address
    #[arg(long, default_value_t = Options::default().port)]
    pub port: i32,

    /// Address on which /metrics is served, instead of --address and --port; for example a loopback address,
    /// while the kubelet probes the pod's address
    #[arg(long, value_name = "IP:PORT")]
    pub metrics_address: Option<SocketAddr>,

    /// Verbosity of the log: 0 to 1 information, 2 to 4 debugging, 5 and more everything
    #[arg(long, short = 'v', value_name = "LEVEL", default_value_t = Options::default().v)]
    pub v: i32,

    /// Format of the log
    #[arg(long, value_enum, default_value_t = Options::default().log_format)]
    pub log_format: LogFormat,

    /// TLS to the driver.
    #[command(flatten)]
    pub driver_tls: DriverTlsOptions,

    /// Timeouts of machines.
    #[command(flatten)]
    pub machine: MachineOptions,

    /// Preservation.
    #[command(flatten)]
    pub preservation: PreservationOptions,

    /// Safety.
    #[command(flatten)]
    pub safety: SafetyOptions,

    /// Health checks.
    #[command(flatten)]
    pub health_check: HealthCheckOptions,

    /// The overshoot guard.
    #[command(flatten)]
    pub overshoot: OvershootOptions,

    /// Flags that are accepted for compatibility.
    #[command(flatten)]
    pub accepted: AcceptedOptions,

    /// Retry periods.
    #[command(flatten)]
    pub retry: RetryOptions,

    /// Leader election.
    #[command(flatten)]
    pub leader_election: LeaderElectionOptions,
}

/// TLS of the connection to the driver. Files are read for every connection, so that rotated files
/// take effect.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "TLS to the driver, with --driver=grpcs://HOST:PORT")]
pub struct DriverTlsOptions {
    /// Accepted authorities of the driver's certificate (PEM)
    #[arg(long = "driver-tls-ca", value_name = "FILE", default_value_t = String::new(), hide_default_value = true)]
    pub ca: String,

    /// Client certificate for the driver (PEM)
    #[arg(long = "driver-tls-cert", value_name = "FILE", default_value_t = String::new(), hide_default_value = true)]
    pub cert: String,

    /// Private key of --driver-tls-cert (PEM)
    #[arg(long = "driver-tls-key", value_name = "FILE", default_value_t = String::new(), hide_default_value = true)]
    pub key: String,

    /// Name that the driver's certificate must contain; empty: the host in --driver
    #[arg(long = "driver-tls-server-name", value_name = "NAME", default_value_t = String::new(), hide_default_value = true)]
    pub server_name: String,
}

/// Timeouts of machines; most can be overridden in a machine's spec.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Machines")]
pub struct MachineOptions {
    /// How long a machine may take to join before it is Failed (duration, for example 20m)
    #[arg(long = "machine-creation-timeout", value_name = "DURATION", default_value_t = MachineOptions::default().creation_timeout)]
    pub creation_timeout: GoDuration,

    /// How long a machine may be Unknown before it is Failed (duration)
    #[arg(long = "machine-health-timeout", value_name = "DURATION", default_value_t = MachineOptions::default().health_timeout)]
    pub health_timeout: GoDuration,

    /// How long a drain may take before the machine is deleted by force (duration)
    #[arg(long = "machine-drain-timeout", value_name = "DURATION", default_value_t = MachineOptions::default().drain_timeout)]
    pub drain_timeout: GoDuration,

    /// Number of eviction attempts before a pod is deleted; limited by the drain timeout, which determines it by default
    #[arg(long = "machine-max-evict-retries", value_name = "COUNT")]
    pub max_evict_retries: Option<i32>,

    /// How long the volumes of an evicted pod may take to detach, in addition to the pod's grace period (duration)
    #[arg(long = "machine-pv-detach-timeout", value_name = "DURATION", default_value_t = MachineOptions::default().pv_detach_timeout)]
    pub pv_detach_timeout: GoDuration,

    /// How long the next pod with volumes waits until the previous pod's volumes attach to another node (duration)
    #[arg(long = "machine-pv-reattach-timeout", value_name = "DURATION", default_value_t = MachineOptions::default().pv_reattach_timeout)]
    pub pv_reattach_timeout: GoDuration,

    /// How long an update in place may take before it has failed (duration)
    #[arg(long = "machine-inplace-update-timeout", value_name = "DURATION", default_value_t = MachineOptions::default().in_place_update_timeout)]
    pub in_place_update_timeout: GoDuration,

    /// Conditions that make a Node unhealthy unless they are False, separated by commas
    #[arg(long, value_name = "TYPES", default_value_t = MachineOptions::default().node_conditions)]
    pub node_conditions: String,

    /// Groups that bootstrap tokens authenticate as in addition to system:bootstrappers, separated by commas
    #[arg(long, value_name = "GROUPS", default_value_t = MachineOptions::default().bootstrap_token_auth_extra_groups)]
    pub bootstrap_token_auth_extra_groups: String,
}

/// How long to wait before a retry.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Retry periods")]
pub struct RetryOptions {
    /// After a write conflict (duration)
    #[arg(long = "conflict-retry", value_name = "DURATION", default_value_t = RetryOptions::default().conflict)]
    pub conflict: GoDuration,

    /// After short-lived errors, and between the steps of a creation or deletion (duration)
    #[arg(long = "short-retry", value_name = "DURATION", default_value_t = RetryOptions::default().short)]
    pub short: GoDuration,

    /// After longer-lived errors (duration)
    #[arg(long = "medium-retry", value_name = "DURATION", default_value_t = RetryOptions::default().medium)]
    pub medium: GoDuration,

    /// After errors that a user must fix, and between checks of a healthy machine (duration)
    #[arg(long = "long-retry", value_name = "DURATION", default_value_t = RetryOptions::default().long)]
    pub long: GoDuration,

    /// Between attempts to evict a pod (duration)
    #[arg(long = "eviction-retry", value_name = "DURATION", default_value_t = RetryOptions::default().eviction)]
    pub eviction: GoDuration,

    /// After a creation failed with ResourceExhausted; 0: as --long-retry (duration)
    #[arg(long = "resource-exhausted-retry", value_name = "DURATION", default_value_t = RetryOptions::default().resource_exhausted)]
    pub resource_exhausted: GoDuration,
}

/// Leader election among several processes.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Leader election")]
pub struct LeaderElectionOptions {
    /// Work only while holding the Lease machine-controller-manager
    #[arg(
        long = "leader-elect", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = LeaderElectionOptions::default().enabled,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    pub enabled: bool,

    /// How long other processes wait after the leader's last renewal before they take over (duration)
    #[arg(long = "leader-elect-lease-duration", value_name = "DURATION", default_value_t = LeaderElectionOptions::default().lease_duration)]
    pub lease_duration: GoDuration,

    /// How long the leader tries to renew before it stops leading (duration)
    #[arg(long = "leader-elect-renew-deadline", value_name = "DURATION", default_value_t = LeaderElectionOptions::default().renew_deadline)]
    pub renew_deadline: GoDuration,

    /// Between attempts to acquire or renew (duration)
    #[arg(long = "leader-elect-retry-period", value_name = "DURATION", default_value_t = LeaderElectionOptions::default().retry_period)]
    pub retry_period: GoDuration,
}

/// A value of `--controllers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Controller {
    /// Machines, and the finalizers of their classes and Secrets.
    Machine,
    /// Orphan VMs and Nodes without a machine.
    Safety,
    /// MachineSets.
    Set,
    /// MachineDeployments.
    Deployment,
    /// MachineHealthChecks; it does not run by default.
    #[value(name = "machinehealthcheck")]
    MachineHealthCheck,
}

impl std::fmt::Display for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Machine => f.write_str("machine"),
            Self::Safety => f.write_str("safety"),
            Self::Set => f.write_str("set"),
            Self::Deployment => f.write_str("deployment"),
            Self::MachineHealthCheck => f.write_str("machinehealthcheck"),
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl std::fmt::Display for LogFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Json => f.write_str("json"),
        }
    }
}

fn seconds(seconds: u64) -> GoDuration {
    GoDuration(Duration::from_secs(seconds))
}

impl Default for Options {
    fn default() -> Self {
        Self {
            driver: String::new(),
            driver_provider: String::new(),
            driver_listen: None,
            controllers: vec![
                Controller::Machine,
                Controller::Safety,
                Controller::Set,
                Controller::Deployment,
            ],
            autoscaler_scaledown_annotation_during_rollout: true,
            honour_min_ready_seconds: false,
            namespace: "default".to_owned(),
            control_kubeconfig: String::new(),
            target_kubeconfig: String::new(),
            kube_api_qps: 0.0,
            kube_api_burst: 30,
            concurrent_syncs: 50,
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 10258,
            metrics_address: None,
            v: 0,
            log_format: LogFormat::Text,
            driver_tls: DriverTlsOptions::default(),
            machine: MachineOptions::default(),
            preservation: PreservationOptions::default(),
            safety: SafetyOptions::default(),
            health_check: HealthCheckOptions::default(),
            overshoot: OvershootOptions::default(),
            accepted: AcceptedOptions::default(),
            retry: RetryOptions::default(),
            leader_election: LeaderElectionOptions::default(),
        }
    }
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self {
            creation_timeout: seconds(20 * 60),
            health_timeout: seconds(10 * 60),
            drain_timeout: seconds(2 * 3600),
            max_evict_retries: None,
            pv_detach_timeout: seconds(2 * 60),
            pv_reattach_timeout: seconds(90),
            in_place_update_timeout: seconds(20 * 60),
            node_conditions: "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable".to_owned(),
            bootstrap_token_auth_extra_groups: String::new(),
        }
    }
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            conflict: GoDuration(Duration::from_millis(200)),
            short: seconds(5),
            medium: seconds(3 * 60),
            long: seconds(10 * 60),
            eviction: seconds(20),
            resource_exhausted: seconds(10 * 60),
        }
    }
}

impl Default for LeaderElectionOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            lease_duration: seconds(15),
            renew_deadline: seconds(10),
            retry_period: seconds(2),
        }
    }
}

/// All violations in the flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct OptionsError(pub Vec<String>);

/// The address of `--driver-listen` without a value.
const DRIVER_LISTEN: &str = "127.0.0.1:5000";
/// The kubeconfig value for an absent cluster.
pub(crate) const NO_CLUSTER: &str = "none";
/// The kubeconfig value for the pod's service account.
pub(crate) const IN_CLUSTER: &str = "inClusterConfig";

impl Options {
    /// Validates all values.
    ///
    /// # Errors
    /// All violations at once; each names its flag and the fix.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let mut violations = Vec::new();
        let mut check = |holds: bool, text: String| {
            if !holds {
                violations.push(text);
            }
        };
        check(
            !self.controllers.is_empty(),
            "--controllers is empty: specify at least one, for example --controllers=machine".into(),
        );
        check(
            !self.namespace.is_empty(),
            "--namespace is empty: specify the namespace of the machines".into(),
        );
        check(
            (1..=65535).contains(&self.port),
            format!("--port={} is not a port: choose one between 1 and 65535", self.port),
        );
        check(
            self.concurrent_syncs > 0,
            format!(
                "--concurrent-syncs={} allows no work: choose 1 or more",
                self.concurrent_syncs
            ),
        );
        check(
            self.kube_api_qps.is_finite() && self.kube_api_qps >= 0.0,
            format!(
                "--kube-api-qps={} is not a rate: choose 0 (no limit) or more",
                self.kube_api_qps
            ),
        );
        check(
            self.kube_api_burst >= 0,
            format!("--kube-api-burst={} is negative: choose 0 or more", self.kube_api_burst),
        );
        check(
            self.machine.max_evict_retries.is_none_or(|retries| retries >= 0),
            format!(
                "--machine-max-evict-retries={} is negative: choose 0 (pods are deleted) or more",
                self.machine.max_evict_retries.unwrap_or_default()
            ),
        );
        check(self.v >= 0, format!("--v={} is negative: choose 0 or more", self.v));
        check(
            !(self.target_kubeconfig == NO_CLUSTER && self.control_kubeconfig.is_empty()),
            "--control-kubeconfig cannot be empty if --target-kubeconfig=none is specified: \
             give a path or inClusterConfig"
                .into(),
        );
        check(
            self.control_kubeconfig != NO_CLUSTER,
            "--control-kubeconfig=none: the machines need a control cluster; give a path".into(),
        );
        for (flag, period) in [
            ("--conflict-retry", self.retry.conflict),
            ("--short-retry", self.retry.short),
            ("--medium-retry", self.retry.medium),
            ("--long-retry", self.retry.long),
            ("--eviction-retry", self.retry.eviction),
            ("--machine-health-check-interval", self.health_check.interval),
            (
                "--machine-safety-overshooting-period",
                self.overshoot.overshooting_period,
            ),
        ] {
            check(
                !period.0.is_zero(),
                format!("{flag}=0s would retry without a pause: choose 1ms or more"),
            );
        }
        self.safety.violations(&mut check);
        self.accepted.violations(&mut check);
        self.leader_election.violations(&mut check);
        if violations.is_empty() {
            Ok(())
        } else {
            Err(OptionsError(violations))
        }
    }

    /// Whether health checks are the only controller: it needs neither a driver nor the objects of other controllers.
    pub fn only_checks_health(&self) -> bool {
        self.controllers
            .iter()
            .all(|one| *one == Controller::MachineHealthCheck)
    }

    /// Validates also the flags that only the program uses, such as those of the driver and of kubeconfigs.
    ///
    /// # Errors
    /// All violations at once, those of [`Self::validate`] included.
    pub fn validate_program(&self) -> Result<(), OptionsError> {
        let mut violations = self.validate().err().map(|error| error.0).unwrap_or_default();
        self.driver_violations(&mut violations);
        for (flag, path) in [
            ("--control-kubeconfig", &self.control_kubeconfig),
            ("--target-kubeconfig", &self.target_kubeconfig),
        ] {
            let is_path = !path.is_empty() && path != NO_CLUSTER && path != IN_CLUSTER;
            if is_path && !PathBuf::from(path).is_file() {
                violations.push(format!("{flag}={path}: there is no such file"));
            }
        }
        if violations.is_empty() {
            Ok(())
        } else {
            Err(OptionsError(violations))
        }
    }
}

impl Options {
    /// The TLS configuration for the driver; `None`: without TLS.
    pub fn tls(&self) -> Option<Tls> {
        self.driver_tls.of(&self.driver)
    }

    /// The TLS files for drivers that register; `None`: they register on loopback without TLS.
    pub fn listener_files(&self) -> Option<TlsFiles> {
        (!self.driver_tls.is_empty()).then(|| self.driver_tls.tls_files())
    }

    fn driver_violations(&self, violations: &mut Vec<String>) {
        if self.only_checks_health() && self.driver.is_empty() && self.driver_listen.is_none() {
            return;
        }
        match (self.driver.is_empty(), self.driver_listen) {
            (false, Some(address)) => {
                violations.push(format!(
                    "--driver={} and --driver-listen={address} exclude each other: \
                     mcm connects to a driver, or drivers register",
                    self.driver
                ));
                return;
            }
            (true, Some(_)) if !self.driver_provider.is_empty() => {
                violations.push(format!(
                    "--driver-provider={} requires --driver: drivers that register themselves report what they serve",
                    self.driver_provider
                ));
                return;
            }
            (true, Some(address)) => return self.listener_violations(address, violations),
            (true, None) => {
                violations.push(
                    "--driver is missing: give the address of the cloud's driver as grpc://HOST:PORT or grpcs://HOST:PORT, \
                     or --driver-listen for drivers that register themselves"
                        .to_owned(),
                );
                return;
            }
            (false, None) => {}
        }
        self.driver_tls.violations(&self.driver, violations);
    }

    fn listener_violations(&self, address: SocketAddr, violations: &mut Vec<String>) {
        let Some(files) = self.listener_files() else {
            if !address.ip().is_loopback() {
                violations.push(format!(
                    "--driver-listen={address} is not on loopback: give --driver-tls-ca, --driver-tls-cert and \
                     --driver-tls-key, or listen on 127.0.0.1"
                ));
            }
            return;
        };
        let missing = self.driver_tls.files().into_iter().filter(|(_, file)| file.is_empty());
        let missing: Vec<_> = missing
            .map(|(flag, _)| format!("{flag} is missing: --driver-listen={address} with certificates needs it"))
            .collect();
        if missing.is_empty() {
            if let Err(error) = files.server_config() {
                violations.push(format!("--driver-tls-ca, --driver-tls-cert, --driver-tls-key: {error}"));
            }
        } else {
            violations.extend(missing);
        }
    }
}

impl DriverTlsOptions {
    /// The TLS configuration for the driver at `address`, of valid flags; `None`: without TLS.
    ///
    /// # Errors
    /// All violations at once.
    pub fn validate(&self, address: &str) -> Result<Option<Tls>, OptionsError> {
        let mut violations = Vec::new();
        self.violations(address, &mut violations);
        if violations.is_empty() {
            Ok(self.of(address))
        } else {
            Err(OptionsError(violations))
        }
    }

    fn of(&self, address: &str) -> Option<Tls> {
        (mcm_driver::channel::is_encrypted(address) || !self.is_empty()).then(|| Tls {
            files: self.tls_files(),
            server_name: Some(self.server_name.clone()).filter(|name| !name.is_empty()),
        })
    }

    fn violations(&self, address: &str, violations: &mut Vec<String>) {
        let tls = self.of(address);
        if let Err(error) = mcm_driver::channel::check_address(address, tls.as_ref()) {
            violations.push(format!("--driver: {error}"));
            return;
        }
        let Some(tls) = tls else { return };
        let missing: Vec<_> = self.files().into_iter().filter(|(_, file)| file.is_empty()).collect();
        for (flag, _) in &missing {
            violations.push(format!("{flag} is missing: --driver={address} needs it"));
        }
        if missing.is_empty()
            && let Err(error) = tls.files.client_config()
        {
            violations.push(format!("--driver-tls-ca, --driver-tls-cert, --driver-tls-key: {error}"));
        }
    }

    fn tls_files(&self) -> TlsFiles {
        TlsFiles {
            ca: (&self.ca).into(),
            cert: (&self.cert).into(),
            key: (&self.key).into(),
        }
    }

    fn files(&self) -> [(&'static str, &str); 3] {
        [
            ("--driver-tls-ca", &self.ca),
            ("--driver-tls-cert", &self.cert),
            ("--driver-tls-key", &self.key),
        ]
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl LeaderElectionOptions {
    fn violations(&self, check: &mut impl FnMut(bool, String)) {
        if !self.enabled {
            return;
        }
        check(
            self.lease_duration.0 >= Duration::from_secs(1),
            format!(
                "--leader-elect-lease-duration={}: a Lease counts whole seconds; choose 1s or more",
                self.lease_duration
            ),
        );
        check(
            self.lease_duration > self.renew_deadline,
            format!(
                "--leader-elect-renew-deadline={} must be shorter than --leader-elect-lease-duration={}: \
                 another process could take over before this one has given up",
                self.renew_deadline, self.lease_duration
            ),
        );
        check(
            self.renew_deadline > self.retry_period,
            format!(
                "--leader-elect-retry-period={} must be shorter than --leader-elect-renew-deadline={}: \
                 one failed attempt would end the leadership",
                self.retry_period, self.renew_deadline
            ),
        );
        check(
            !self.retry_period.0.is_zero(),
            "--leader-elect-retry-period=0s would retry without a pause: choose 1ms or more".to_owned(),
        );
    }
}

mod accepted;
mod health_check;
mod overshoot;
mod preservation;
mod safety;

#[cfg(test)]
mod tests;
