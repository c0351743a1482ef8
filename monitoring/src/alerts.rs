//! Alerting rules for Prometheus as a table.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::missing_metrics;

/// How urgent an alert is: the value of its label `severity`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Somebody must act now.
    Critical,
    /// Somebody must act, but not at once.
    Warning,
    /// Good to know.
    Info,
}

/// An alerting rule.
#[derive(Clone, Copy, Debug)]
pub struct Alert {
    /// Its name.
    pub name: &'static str,
    /// The query; the alert is active while it returns a sample.
    pub query: &'static str,
    /// How long the query returns a sample before the alert fires, in Prometheus' notation; `0m`: at once.
    pub after: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// What is wrong, in one sentence.
    pub summary: &'static str,
    /// What it means and what to do; empty: the summary says all.
    pub description: &'static str,
}

/// The alerting rules that Prometheus reads from one file.
#[derive(Clone, Copy, Debug)]
pub struct AlertGroup {
    /// Its name.
    pub name: &'static str,
    /// The comment at the beginning of the file, with lines that begin with `#`.
    pub comment: &'static str,
    /// Its rules, in the order of what an operator wants to know first.
    pub alerts: &'static [Alert],
}

#[derive(Serialize)]
struct File {
    groups: [Group; 1],
}

#[derive(Serialize)]
struct Group {
    name: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
struct Rule {
    alert: &'static str,
    expr: &'static str,
    #[serde(rename = "for")]
    after: &'static str,
    labels: BTreeMap<&'static str, Severity>,
    annotations: Annotations,
}

#[derive(Serialize)]
struct Annotations {
    summary: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'static str,
}

impl From<&Alert> for Rule {
    fn from(alert: &Alert) -> Self {
        Self {
            alert: alert.name,
            expr: alert.query,
            after: alert.after,
            labels: BTreeMap::from([("severity", alert.severity)]),
            annotations: Annotations {
                summary: alert.summary,
                description: alert.description,
            },
        }
    }
}

impl AlertGroup {
    /// The file as Prometheus reads it.
    ///
    /// # Errors
    /// When a text cannot be written as YAML.
    pub fn yaml(&self) -> Result<String, serde_saphyr::ser::Error> {
        let rules = self.alerts.iter().map(Rule::from).collect();
        let groups = [Group { name: self.name, rules }];
        let yaml = serde_saphyr::to_string(&File { groups })?;
        Ok(format!("{}\n{yaml}", self.comment))
    }

    /// The metrics of its queries whose names begin with one of `prefixes` and are not in the text of a scrape, and the number of
    /// those that are.
    pub fn missing_metrics(&self, prefixes: &[&str], scraped: &str) -> (Vec<String>, usize) {
        missing_metrics(self.alerts.iter().map(|alert| alert.query), prefixes, scraped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: AlertGroup = AlertGroup {
        name: "a-group",
        comment: "# A comment.",
        alerts: &[
            Alert {
                name: "Gone",
                query: "absent(a_gone) or a_size > 2",
                after: "5m",
                severity: Severity::Critical,
                summary: "It is gone: {{ $labels.name }}.",
                description: "See its log.",
            },
            Alert {
                name: "Large",
                query: "a_size > 1",
                after: "0m",
                severity: Severity::Info,
                summary: "It is large.",
                description: "",
            },
        ],
    };

    #[test]
    fn a_group_is_written_as_prometheus_reads_it() {
        let yaml = GROUP.yaml().unwrap();
        assert!(yaml.starts_with("# A comment.\ngroups:\n"), "{yaml}");
        let read: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(
            read,
            serde_json::json!({ "groups": [{ "name": "a-group", "rules": [
                {
                    "alert": "Gone", "expr": "absent(a_gone) or a_size > 2", "for": "5m",
                    "labels": { "severity": "critical" },
                    "annotations": { "summary": "It is gone: {{ $labels.name }}.", "description": "See its log." },
                },
                {
                    "alert": "Large", "expr": "a_size > 1", "for": "0m",
                    "labels": { "severity": "info" },
                    "annotations": { "summary": "It is large." },
                },
            ]}]})
        );
    }

    #[test]
    fn a_query_for_a_metric_that_no_scrape_has_is_found() {
        let scraped = "# TYPE a_size gauge\n";
        assert_eq!(GROUP.missing_metrics(&["a_"], scraped), (vec!["a_gone".to_owned()], 1));
    }
}
