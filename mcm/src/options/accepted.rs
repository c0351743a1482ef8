//! Flags that manifests of upstream's programs have and that set nothing here: they are read and checked as there, so
//! that such a manifest works.

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};
use mcm_api::GoDuration;

/// What upstream's manifests may say.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Accepted because upstream's manifests have them; nothing depends on them")]
pub struct AcceptedOptions {
    /// Name of the cloud; the class's provider and --driver say it
    #[arg(long, value_name = "NAME", default_value_t = String::new(), hide_default_value = true)]
    pub cloud_provider: String,

    /// Between two full lists of an informer (duration); here watches are renewed by the server
    #[arg(long, value_name = "DURATION", default_value_t = AcceptedOptions::default().min_resync_period)]
    pub min_resync_period: GoDuration,

    /// Between the starts of two controllers (duration); here they start together
    #[arg(long, value_name = "DURATION", default_value_t = AcceptedOptions::default().controller_start_interval)]
    pub controller_start_interval: GoDuration,

    /// Media type of requests; here JSON
    #[arg(long, value_name = "TYPE", default_value_t = AcceptedOptions::default().kube_api_content_type)]
    pub kube_api_content_type: String,

    /// Kind of the lock; here a Lease in any case
    #[arg(long, value_name = "KIND", default_value_t = AcceptedOptions::default().leader_elect_resource_lock)]
    pub leader_elect_resource_lock: String,

    /// Serve profiles; there are none
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub profiling: bool,

    /// Serve profiles of locks; there are none
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub contention_profiling: bool,

    /// Between two writes of the log (duration); here every line is written at once
    #[arg(long, value_name = "DURATION", default_value_t = AcceptedOptions::default().log_flush_frequency)]
    pub log_flush_frequency: GoDuration,

    /// Detail of the log by source file; here RUST_LOG says it
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
            profiling: false,
            contention_profiling: false,
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
                "--kube-api-content-type={:?} is no media type: write one as application/json, or leave it out",
                self.kube_api_content_type
            ),
        );
        check(
            self.leader_elect_resource_lock == "leases",
            format!(
                "--leader-elect-resource-lock={}: mcm competes for a Lease; write leases, or leave it out",
                self.leader_elect_resource_lock
            ),
        );
        check(
            !self.contention_profiling || self.profiling,
            "--contention-profiling needs --profiling; mcm has neither profile, leave both out".to_owned(),
        );
    }
}
