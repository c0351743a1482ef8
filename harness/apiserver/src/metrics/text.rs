//! Prometheus' text format.

use std::fmt::Write as _;

/// A label and its value.
pub type Label = (&'static str, String);

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only increases.
    Counter,
    /// The current value.
    Gauge,
    /// Cumulative buckets.
    Histogram,
}

/// A metric with its samples.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// The type.
    pub kind: Kind,
    /// The values.
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What follows the name of the metric: `_bucket`, `_sum`, `_count`, or nothing.
    pub suffix: &'static str,
    /// The labels.
    pub labels: Vec<(String, String)>,
    /// The value.
    pub value: f64,
}

impl Family {
    /// A metric without samples.
    pub fn new(name: &'static str, help: &'static str, kind: Kind) -> Self {
        Self {
            name,
            help,
            kind,
            samples: Vec::new(),
        }
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, labels: &[Label], count: u64) -> Self {
        self.samples.push(sample(labels, &[], count));
        self
    }
}

impl Sample {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn with_suffix(self, suffix: &'static str) -> Self {
        Self { suffix, ..self }
    }
}

/// A sample with these labels.
pub(super) fn sample(labels: &[Label], more: &[(&str, &str)], count: u64) -> Sample {
    let owned = labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let more = more
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Sample {
        suffix: "",
        labels: owned.chain(more).collect(),
        value: count as f64,
    }
}

/// Nanoseconds as seconds, in the shortest form.
pub(super) fn seconds(nanoseconds: u64) -> String {
    (nanoseconds as f64 / 1e9).to_string()
}

/// The text of metrics. Metrics without samples are left out.
pub(super) fn render(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {0} {1}\n# TYPE {0} {kind}", family.name, family.help);
        for sample in &family.samples {
            let labels: Vec<String> = sample
                .labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            let labels = match labels.is_empty() {
                true => String::new(),
                false => format!("{{{}}}", labels.join(",")),
            };
            let _ = writeln!(text, "{}{}{labels} {}", family.name, sample.suffix, sample.value);
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The samples of one name in a text of this format. Lines that are not understood are skipped.
pub fn parse(text: &str, name: &str) -> Vec<Sample> {
    let of_name = text.lines().filter_map(|line| line.strip_prefix(name));
    of_name.filter_map(parse_rest).collect()
}

/// Parses what follows the name of a sample.
fn parse_rest(rest: &str) -> Option<Sample> {
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (Vec::new(), rest.strip_prefix(' ')?),
    };
    Some(Sample {
        suffix: "",
        labels,
        value: value.split_whitespace().next()?.parse().ok()?,
    })
}

/// Parses labels up to the closing brace; returns what follows.
fn parse_labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        rest = loop {
            match characters.next()? {
                (_, '"') => break characters.as_str(),
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_help_type_and_escaped_labels_and_can_be_parsed() {
        let family = Family::new("things_total", "Number of things.", Kind::Counter)
            .with(&[("name", "a\"b\\c\nd".to_owned()), ("other", "}".to_owned())], 3)
            .with(&[], 1);
        let text = render(&[family, Family::new("none", "Nothing.", Kind::Gauge)]);
        let expected = [
            "# HELP things_total Number of things.",
            "# TYPE things_total counter",
            r#"things_total{name="a\"b\\c\nd",other="}"} 3"#,
            "things_total 1",
            "",
        ];
        assert_eq!(text, expected.join("\n"));
        let parsed = parse(&text, "things_total");
        assert_eq!(parsed.len(), 2);
        assert_eq!(parsed[0].label("name"), Some("a\"b\\c\nd"));
        assert_eq!((parsed[0].label("other"), parsed[0].value), (Some("}"), 3.0));
        assert!(parse(&text, "things").is_empty(), "another metric");
    }
}
