//! Flags of upstream's manifests that have no effect here: they are parsed and validated as upstream does, so that such
//! manifests work.

use clap::Args;
use mcm_api::GoDuration;

/// Flags that upstream's manifests may contain.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Accepted for compatibility with upstream's manifests; they have no effect")]
pub struct AcceptedOptions {
    /// Name of the cloud; here the class's provider and --driver determine it
    #[arg(long, value_name = "NAME", default_value_t = String::new(), hide_default_value = true)]
    pub cloud_provider: String,

    /// Period of an informer's full lists (duration); here the server ends watches
    #[arg(long, value_name = "DURATION", default_value_t = AcceptedOptions::default().min_resync_period)]
    pub min_resync_period: GoDuration,

    /// Interval between the starts of controllers (duration); here they start together
    #[arg(long, value_name = "DURATION", default_value_t = AcceptedOptions::default().controller_start_interval)]
    pub controller_start_interval: GoDuration,

    /// Media type of requests; here always JSON
    #[arg(long, value_name = "TYPE", default_value_t = AcceptedOptions::default().kube_api_content_type)]
    pub kube_api_content_type: String,

    /// Kind of the lock; here always a Lease
    #[arg(long, value_name = "KIND", default_value_t = AcceptedOptions::default().leader_elect_resource_lock)]
    pub leader_elect_resource_lock: String,

    /// Interval between flushes of the log (duration); here every line is flushed at once
    #[arg(long, value_name = "DURATION", default_value_t = AcceptedOptions::default().log_flush_frequency)]
    pub log_flush_frequency: GoDuration,

    /// Verbosity of the log by source file; here RUST_LOG sets it
    #[arg(long, value_name = "PATTERNS", default_value_t = String::new(), hide_default_value = true)]
    pub vmodule: String,
}

impl Default for AcceptedOptions {
    fn default() -> Self {
        Self {
            cloud_provider: String::new(),
            min_resync_period: super::seconds(12 * 3600),
            controller_start_interval: super::seconds(0),
            kube_api_content_type: "application/vnd.kubernetes.protobuf".to_owned(),
            leader_elect_resource_lock: "leases".to_owned(),
            log_flush_frequency: super::seconds(5),
            vmodule: String::new(),
        }
    }
}

impl AcceptedOptions {
    pub(super) fn violations(&self, check: &mut impl FnMut(bool, String)) {
        let media_type = self.kube_api_content_type.split(';').next().unwrap_or_default().trim();
        let parts: Vec<&str> = media_type.split('/').collect();
        check(
            parts.len() == 2
                && parts
                    .iter()
                    .all(|part| !part.is_empty() && !part.contains(char::is_whitespace)),
            format!(
                "--kube-api-content-type={:?} is not a media type: use one such as application/json, or omit the flag",
                self.kube_api_content_type
            ),
        );
        check(
            self.leader_elect_resource_lock == "leases",
            format!(
                "--leader-elect-resource-lock={}: mcm supports only a Lease; use leases, or omit the flag",
                self.leader_elect_resource_lock
            ),
        );
    }
}
