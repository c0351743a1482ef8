//! The classes of differences.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::json;

use super::compare::Difference;
use super::load::Manifest;

/// The number of examples of a class.
const EXAMPLES: usize = 3;

/// What was compared.
#[derive(Default)]
pub struct Report {
    definitions: Count,
    manifests: Count,
    skipped: BTreeMap<String, usize>,
    /// The manifests of each class.
    classes: BTreeMap<String, Vec<String>>,
    details: String,
}

#[derive(Default)]
struct Count {
    compared: usize,
    identical: usize,
    /// How many have other warnings.
    warnings: usize,
}

impl Report {
    pub fn skipped(&mut self, why: &str, count: usize) {
        *self.skipped.entry(why.to_owned()).or_default() += count;
    }

    pub fn compared(&mut self, manifest: &Manifest, found: Vec<Difference>) {
        let count = match manifest.kind.as_str() {
            "CustomResourceDefinition" => &mut self.definitions,
            _ => &mut self.manifests,
        };
        count.compared += 1;
        let (warnings, others): (Vec<_>, Vec<_>) = found.iter().partition(|difference| difference.is_warning());
        if others.is_empty() {
            count.identical += 1;
        }
        if !warnings.is_empty() {
            count.warnings += 1;
        }
        let title = format!("{} {} in {}", manifest.kind, manifest.name, manifest.file);
        for difference in found {
            let line = json!({
                "class": difference.class, "manifest": title, "embedded": difference.embedded, "real": difference.real,
                "object": manifest.object,
            });
            self.details.push_str(&format!("{line}\n"));
            let titles = self.classes.entry(difference.class).or_default();
            if titles.last() != Some(&title) {
                titles.push(title.clone());
            }
        }
    }

    /// Each difference as a line of JSON.
    pub fn details(&self) -> &str {
        &self.details
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in [("definitions", &self.definitions), ("manifests", &self.manifests)] {
            let differ = count.compared - count.identical;
            let share = 100.0 * count.identical as f64 / count.compared.max(1) as f64;
            writeln!(
                f,
                "{} {what} compared: {} identical ({share:.1} %), {differ} differ; {} have other warnings",
                count.compared, count.identical, count.warnings
            )?;
        }
        for (why, count) in &self.skipped {
            writeln!(f, "skipped: {count}: {why}")?;
        }
        let mut classes: Vec<_> = self.classes.iter().collect();
        classes.sort_by_key(|(class, titles)| (std::cmp::Reverse(titles.len()), (*class).clone()));
        for (class, titles) in classes {
            writeln!(f, "\n{} {class}", titles.len())?;
            for title in titles.iter().take(EXAMPLES) {
                writeln!(f, "    {title}")?;
            }
        }
        Ok(())
    }
}
