//! Semantic checks of a configuration, beyond its syntax.

use std::collections::BTreeSet;

use super::{Config, ConfigError};
use crate::syntax::{is_quantity, is_zone};

/// Maximum number of older files of the audit log: each rotation renames all of them.
const MAX_AUDIT_FILES: u32 = 1000;

fn wrong(field: impl Into<String>, reason: impl ToString) -> Result<(), ConfigError> {
    Err(ConfigError::Value {
        field: field.into(),
        reason: reason.to_string(),
    })
}

impl Config {
    /// Checks values and combinations of fields.
    ///
    /// # Errors
    /// The first field with an invalid value.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_kubelet()?;
        self.check_cloud_controller()?;
        self.check_audit()?;
        self.check_machine_types()?;
        self.check_zones()?;
        self.check_rules()
    }

    fn check_kubelet(&self) -> Result<(), ConfigError> {
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
            return wrong("kubelet.leaseDuration", "must be longer than kubelet.leasePeriod");
        }
        if kubelet.concurrency == 0 {
            return wrong("kubelet.concurrency", "must be at least 1");
        }
        for (index, rule) in kubelet.faults.iter().enumerate() {
            if let Err(error) = rule.fault() {
                return wrong(format!("kubelet.faults[{index}]"), error);
            }
        }
        Ok(())
    }

    fn check_cloud_controller(&self) -> Result<(), ConfigError> {
        if self.cloud_controller.monitor_period.0.is_zero() {
            let reason = "must be longer than zero, for example 5s";
            return wrong("cloudController.monitorPeriod", reason);
        }
        if self.kubelet.external_cloud_provider && !self.cloud_controller.enabled {
            let reason = "needs cloudController.enabled: without it Nodes are never initialized";
            return wrong("kubelet.externalCloudProvider", reason);
        }
        Ok(())
    }

    fn check_audit(&self) -> Result<(), ConfigError> {
        if !is_quantity(&self.audit.file_size) {
            let reason = "must be a positive quantity of bytes, for example 64Mi";
            return wrong("audit.fileSize", reason);
        }
        if self.audit.files > MAX_AUDIT_FILES {
            return wrong("audit.files", format!("must be at most {MAX_AUDIT_FILES}"));
        }
        Ok(())
    }

    fn check_machine_types(&self) -> Result<(), ConfigError> {
        for (name, machine_type) in &self.machine_types {
            for (field, quantity) in [("cpu", &machine_type.cpu), ("memory", &machine_type.memory)] {
                if !is_quantity(quantity) {
                    let reason = "must be a positive quantity, for example 4, 500m or 16Gi";
                    return wrong(format!("machineTypes.{name}.{field}"), reason);
                }
            }
        }
        let is_price = |text: &str| text.parse::<f64>().is_ok_and(|price| price.is_finite() && price >= 0.0);
        for (name, machine_type) in &self.machine_types {
            if machine_type.price.as_deref().is_some_and(|price| !is_price(price)) {
                let reason = "must be a number that is not negative, in quotes, for example \"0.096\"";
                return wrong(format!("machineTypes.{name}.price"), reason);
            }
        }
        Ok(())
    }

    fn check_zones(&self) -> Result<(), ConfigError> {
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
        Ok(())
    }

    fn check_rules(&self) -> Result<(), ConfigError> {
        for (index, limit) in self.rate_limits.iter().enumerate() {
            if let Err(error) = limit.check() {
                return wrong(format!("rateLimits[{index}]"), error);
            }
        }
        for (index, rule) in self.faults.iter().enumerate() {
            if let Err(error) = rule.check() {
                return wrong(format!("faults[{index}]"), error);
            }
        }
        Ok(())
    }
}
