//! The provider spec of machine classes: what a VM is to be made of.
//!
//! What lives here: reading and checking it, with errors that name field and fix.

use std::collections::BTreeMap;

use mcm_api::cloud::{Code, DriverError};
use serde_json::{Map, Value};

use crate::config::{Config, is_zone};

/// A checked provider spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderSpec {
    /// One of the configured machine types.
    pub machine_type: String,
    /// Any name.
    pub image: String,
    /// One of the configured zones, or any when none is configured.
    pub zone: String,
    /// The cloud's region when absent.
    pub region: Option<String>,
    /// Disks that are made and deleted with the VM.
    pub disks: Vec<Part>,
    /// Network interfaces that are made and deleted with the VM.
    pub nics: Vec<Part>,
    /// Tags of the VM. Those of the cluster and the role decide what `ListMachines` shows.
    pub tags: BTreeMap<String, String>,
    /// Labels with which the kubelet registers.
    pub labels: BTreeMap<String, String>,
    /// Taints with which the kubelet registers.
    pub taints: Vec<Taint>,
}

/// A disk or a network interface: a name and free text fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Unique among the VM's parts of its kind.
    pub name: String,
    /// Everything else that the spec says of it.
    pub attributes: BTreeMap<String, String>,
}

/// A Node's taint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// May be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

const FIELDS: [&str; 9] = [
    "machineType",
    "image",
    "zone",
    "region",
    "disks",
    "nics",
    "tags",
    "labels",
    "taints",
];
/// What a taint may do.
pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

impl ProviderSpec {
    /// Reads and checks the provider spec of a machine class.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`], naming the field and what to write there.
    pub fn read(value: &Value, config: &Config) -> Result<Self, DriverError> {
        let Value::Object(fields) = value else {
            return Err(wrong("", "must be an object with machineType, image and zone"));
        };
        if let Some(field) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
            return Err(wrong(
                field,
                &format!("is unknown; the fields are {}", FIELDS.join(", ")),
            ));
        }
        let spec = Self {
            machine_type: required(fields, "machineType")?,
            image: required(fields, "image")?,
            zone: required(fields, "zone")?,
            region: optional(fields, "region")?,
            disks: parts(fields, "disks")?,
            nics: parts(fields, "nics")?,
            tags: texts(fields, "tags")?,
            labels: texts(fields, "labels")?,
            taints: taints(fields)?,
        };
        if !config.machine_types.contains_key(&spec.machine_type) {
            let known: Vec<_> = config.machine_types.keys().map(String::as_str).collect();
            let reason = format!(
                "{:?} is unknown; this cloud has {}",
                spec.machine_type,
                known.join(", ")
            );
            return Err(wrong("machineType", &reason));
        }
        if !is_zone(&spec.zone) {
            return Err(wrong("zone", "must consist of lower-case letters, digits and dashes"));
        }
        if !config.zones.is_empty() && !config.zones.contains(&spec.zone) {
            let reason = format!("{:?} is unknown; this cloud has {}", spec.zone, config.zones.join(", "));
            return Err(wrong("zone", &reason));
        }
        Ok(spec)
    }
}

fn wrong(field: &str, reason: &str) -> DriverError {
    let path = if field.is_empty() {
        "providerSpec".to_owned()
    } else {
        format!("providerSpec.{field}")
    };
    DriverError::new(Code::InvalidArgument, format!("{path}: {reason}"))
}

fn optional(fields: &Map<String, Value>, field: &str) -> Result<Option<String>, DriverError> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(wrong(field, "must be a text that is not empty")),
    }
}

fn required(fields: &Map<String, Value>, field: &str) -> Result<String, DriverError> {
    optional(fields, field)?.ok_or_else(|| wrong(field, "is missing; add it to the MachineClass"))
}

fn texts(fields: &Map<String, Value>, field: &str) -> Result<BTreeMap<String, String>, DriverError> {
    let entries = match fields.get(field) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err(wrong(field, "must be an object of texts")),
    };
    let entry = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        _ => Err(wrong(&format!("{field}[{key}]"), "must be a text; put it in quotes")),
    };
    entries.iter().map(entry).collect()
}

/// Objects of a list, each with its path.
type Objects<'a> = Vec<(String, &'a Map<String, Value>)>;

fn objects<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<Objects<'a>, DriverError> {
    let items = match fields.get(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(wrong(field, "must be a list")),
    };
    let item = |(index, item): (usize, &'a Value)| {
        let path = format!("{field}[{index}]");
        match item {
            Value::Object(item) => Ok((path, item)),
            _ => Err(wrong(&path, "must be an object")),
        }
    };
    items.iter().enumerate().map(item).collect()
}

fn parts(fields: &Map<String, Value>, field: &str) -> Result<Vec<Part>, DriverError> {
    let mut parts: Vec<Part> = Vec::new();
    for (index, (path, item)) in objects(fields, field)?.into_iter().enumerate() {
        let mut part = Part {
            name: index.to_string(),
            ..Part::default()
        };
        for (key, value) in item {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return Err(wrong(&format!("{path}.{key}"), "must be a text, a number or a boolean")),
            };
            if key == "name" {
                part.name = text
            } else {
                part.attributes.insert(key.clone(), text).map_or((), drop)
            }
        }
        if parts.iter().any(|other| other.name == part.name) {
            return Err(wrong(
                &format!("{path}.name"),
                &format!("{:?} stands there twice; names are unique", part.name),
            ));
        }
        parts.push(part);
    }
    Ok(parts)
}

fn taints(fields: &Map<String, Value>) -> Result<Vec<Taint>, DriverError> {
    let mut taints = Vec::new();
    for (path, item) in objects(fields, "taints")? {
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let taint = Taint {
            key: text("key"),
            value: text("value"),
            effect: text("effect"),
        };
        if taint.key.is_empty() {
            return Err(wrong(&format!("{path}.key"), "is missing"));
        }
        if !EFFECTS.contains(&taint.effect.as_str()) {
            return Err(wrong(
                &format!("{path}.effect"),
                &format!("must be one of {}", EFFECTS.join(", ")),
            ));
        }
        taints.push(taint);
    }
    Ok(taints)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_whole_provider_spec_is_read() {
        let value = json!({
            "machineType": "small", "image": "linux-1", "zone": "local-1", "region": "local",
            "disks": [{"name": "boot", "size": "50Gi"}], "nics": [{"network": "default"}],
            "tags": {"kubernetes.io/cluster/shoot": "1"},
            "labels": {"pool": "a"}, "taints": [{"key": "starting", "effect": "NoSchedule"}],
        });
        let spec = ProviderSpec::read(&value, &Config::default()).unwrap();
        assert_eq!(spec.disks[0].name, "boot");
        assert_eq!(spec.nics[0].attributes["network"], "default");
        assert_eq!(spec.taints[0].effect, "NoSchedule");
    }

    #[rstest]
    #[case::no_object(json!("small"), "providerSpec: must be an object")]
    #[case::unknown_field(json!({"machinetype": "small"}), "providerSpec.machinetype: is unknown")]
    #[case::missing(json!({"machineType": "small", "zone": "a"}), "providerSpec.image: is missing")]
    #[case::unknown_type(json!({"machineType": "huge", "image": "i", "zone": "a"}), "this cloud has large, medium, small")]
    #[case::bad_zone(json!({"machineType": "small", "image": "i", "zone": "A/b"}), "providerSpec.zone: must consist")]
    #[case::bad_tag(json!({"machineType": "small", "image": "i", "zone": "a", "tags": {"n": 1}}), "providerSpec.tags[n]")]
    #[case::bad_disk(json!({"machineType": "small", "image": "i", "zone": "a", "disks": [{"size": []}]}), "providerSpec.disks[0].size")]
    #[case::same_name(json!({"machineType": "small", "image": "i", "zone": "a", "disks": [{"name": "a"}, {"name": "a"}]}), "disks[1].name")]
    #[case::bad_taint(json!({"machineType": "small", "image": "i", "zone": "a", "taints": [{"key": "a", "effect": "No"}]}), "taints[0].effect")]
    fn a_bad_field_is_named_with_its_fix(#[case] value: Value, #[case] said: &str) {
        let error = ProviderSpec::read(&value, &Config::default()).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains(said), "{}", error.message);
    }

    #[test]
    fn only_configured_zones_are_accepted() {
        let config = Config {
            zones: vec!["near".to_owned()],
            ..Config::default()
        };
        let value = json!({"machineType": "small", "image": "i", "zone": "far"});
        let error = ProviderSpec::read(&value, &config).unwrap_err();
        assert_eq!(
            error.message,
            "providerSpec.zone: \"far\" is unknown; this cloud has near"
        );
    }
}
