//! Semantic checks of a configuration, beyond its syntax.

use std::collections::BTreeSet;

use super::{Config, ConfigError};
use crate::syntax::{is_quantity, is_zone};

/// Maximum number of older files of the audit log: each rotation renames all of them.
const MAX_AUDIT_FILES: u32 = 1000;

impl Config {
    /// Checks values and combinations of fields.
    ///
    /// # Errors
    /// The first field with an invalid value.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |field: String, reason: &str| {
            Err(ConfigError::Value {
                field,
                reason: reason.to_owned(),
            })
        };
        let kubelet = &self.kubelet;
        let periods = [
            ("leasePeriod", kubelet.lease_period),
            ("statusPeriod", kubelet.status_period),
            ("statusSync", kubelet.status_sync),
            ("joinRetry", kubelet.join_retry),
        ];
        for (name, period) in periods {
            if period.0.is_zero() {
                return wrong(format!("kubelet.{name}"), "must be longer than zero, for example 10s");
            }
        }
        if kubelet.lease_duration <= kubelet.lease_period {
            return wrong(
                "kubelet.leaseDuration".to_owned(),
                "must be longer than kubelet.leasePeriod",
            );
        }
        if kubelet.concurrency == 0 {
            return wrong("kubelet.concurrency".to_owned(), "must be at least 1");
        }
        for (index, rule) in kubelet.faults.iter().enumerate() {
            if let Err(reason) = rule.fault() {
                return wrong(format!("kubelet.faults[{index}]"), &reason.to_string());
            }
        }
        if self.cloud_controller.monitor_period.0.is_zero() {
            return wrong(
                "cloudController.monitorPeriod".to_owned(),
                "must be longer than zero, for example 5s",
            );
        }
        if kubelet.external_cloud_provider && !self.cloud_controller.enabled {
            return wrong(
                "kubelet.externalCloudProvider".to_owned(),
                "needs cloudController.enabled: without it Nodes are never initialized",
            );
        }
        if !is_quantity(&self.audit.file_size) {
            return wrong(
                "audit.fileSize".to_owned(),
                "must be a positive quantity of bytes, for example 64Mi",
            );
        }
        if self.audit.files > MAX_AUDIT_FILES {
            return wrong("audit.files".to_owned(), "must be at most 1000");
        }
        for (name, machine_type) in &self.machine_types {
            for (field, quantity) in [("cpu", &machine_type.cpu), ("memory", &machine_type.memory)] {
                if !is_quantity(quantity) {
                    return wrong(
                        format!("machineTypes.{name}.{field}"),
                        "must be a positive quantity, for example 4, 500m or 16Gi",
                    );
                }
            }
        }
        for (name, machine_type) in &self.machine_types {
            let price = machine_type.price.as_deref();
            if price.is_some_and(|price| {
                !price
                    .parse::<f64>()
                    .is_ok_and(|price| price.is_finite() && price >= 0.0)
            }) {
                return wrong(
                    format!("machineTypes.{name}.price"),
                    "must be a number that is not negative, in quotes, for example \"0.096\"",
                );
            }
        }
        let own = self
            .zones
            .iter()
            .enumerate()
            .map(|(index, zone)| (format!("zones[{index}]"), zone));
        let of_regions = self.regions.iter().flat_map(|(region, zones)| {
            zones
                .iter()
                .enumerate()
                .map(move |(index, zone)| (format!("regions.{region}[{index}]"), zone))
        });
        let mut seen = BTreeSet::new();
        for (field, zone) in own.chain(of_regions) {
            if !is_zone(zone) {
                return wrong(field, "must consist of lower-case letters, digits and dashes");
            }
            if !seen.insert(zone) {
                return wrong(field, "is in several regions; a zone has one region");
            }
        }
        for (index, limit) in self.rate_limits.iter().enumerate() {
            if let Err(reason) = limit.check() {
                return wrong(format!("rateLimits[{index}]"), &reason.to_string());
            }
        }
        for (index, rule) in self.faults.iter().enumerate() {
            if let Err(reason) = rule.check() {
                return wrong(format!("faults[{index}]"), &reason.to_string());
            }
        }
        Ok(())
    }
}
