//! The provider spec of machine classes: the description of a VM.

use std::collections::BTreeMap;

use mcm_api::cloud::{Code, DriverError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::part_limits::{at_most, check_tags};
use super::settings::Settings;
use crate::syntax::{is_quantity, is_zone};

/// A checked provider spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderSpec {
    /// One of the configured machine types.
    pub machine_type: String,
    /// One of the configured images, or any when none is configured.
    pub image: String,
    /// One of the configured zones, or any when none is configured.
    pub zone: String,
    /// Absent: the zone's region.
    pub region: Option<String>,
    /// Disks that are created and deleted with the VM; never empty after reading, and the VM boots from one.
    pub disks: Vec<DiskSpec>,
    /// Network interfaces that are created and deleted with the VM; never empty after reading.
    pub nics: Vec<NicSpec>,
    /// Tags of the VM. The ownership tags decide which VMs `ListMachines` returns.
    pub tags: BTreeMap<String, String>,
    /// Labels with which the kubelet registers.
    pub labels: BTreeMap<String, String>,
    /// Taints with which the kubelet registers.
    pub taints: Vec<Taint>,
    /// Prefix of its Node's name before the machine's name; empty: the Node has the machine's name.
    pub node_name_prefix: String,
}

/// A disk that is created with a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskSpec {
    /// Unique among the VM's disks.
    pub name: String,
    /// In Kubernetes' syntax.
    pub size: String,
    /// For example `standard` or `ssd`; any name.
    pub kind: String,
    /// Whether the VM boots from it.
    pub boot: bool,
    /// The cloud's tags.
    pub tags: BTreeMap<String, String>,
}

/// Flags that can be changed on an existing network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicFlags {
    /// It drops packets that are not its own.
    pub source_destination_check: bool,
    /// It has an IPv6 address.
    pub ipv6: bool,
}

impl Default for NicFlags {
    fn default() -> Self {
        Self {
            source_destination_check: true,
            ipv6: false,
        }
    }
}

/// A network interface that is created with a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicSpec {
    /// Unique among the VM's interfaces.
    pub name: String,
    /// The network's name.
    pub network: String,
    /// Its flags after the initialization of the VM.
    pub flags: NicFlags,
    /// The cloud's tags.
    pub tags: BTreeMap<String, String>,
}

/// A Node's taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// May be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

const FIELDS: [&str; 10] = [
    "machineType",
    "image",
    "zone",
    "region",
    "disks",
    "nics",
    "tags",
    "labels",
    "taints",
    "nodeNamePrefix",
];
/// Effects of taints.
pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

impl ProviderSpec {
    /// Reads and checks the provider spec of a machine class.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`], naming the field and what to write there.
    pub fn read(value: &Value, settings: &Settings) -> Result<Self, DriverError> {
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
            disks: disks(fields, settings)?,
            nics: nics(fields, settings)?,
            tags: tags(fields, "", settings)?,
            labels: texts(fields, "", "labels")?,
            taints: taints(fields)?,
            node_name_prefix: optional(fields, "nodeNamePrefix")?.unwrap_or_default(),
        };
        if !settings.machine_types.contains_key(&spec.machine_type) {
            let known: Vec<_> = settings.machine_types.keys().map(String::as_str).collect();
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
        if !is_name_prefix(&spec.node_name_prefix) {
            let reason = "must consist of lower-case letters, digits and dashes, and begin with a letter or a digit";
            return Err(wrong("nodeNamePrefix", reason));
        }
        let zones = settings.all_zones();
        if !zones.is_empty() && !zones.contains(&spec.zone) {
            let reason = format!("{:?} is unknown; this cloud has {}", spec.zone, zones.join(", "));
            return Err(wrong("zone", &reason));
        }
        if let Some(region) = &spec.region
            && !settings.regions.is_empty()
            && *region != settings.region_of(&spec.zone)
        {
            let reason = format!(
                "{region:?} is not the region of zone {}, which is {}",
                spec.zone,
                settings.region_of(&spec.zone)
            );
            return Err(wrong("region", &reason));
        }
        if !settings.images.is_empty() && !settings.images.contains(&spec.image) {
            let reason = format!(
                "{:?} is unknown; this cloud has {}",
                spec.image,
                settings.images.join(", ")
            );
            return Err(wrong("image", &reason));
        }
        if let Some(missing) = settings.required_tags.iter().find(|key| !spec.tags.contains_key(*key)) {
            let reason = "is missing; this cloud requires this tag on every VM";
            return Err(wrong(&format!("tags[{missing}]"), reason));
        }
        Ok(spec)
    }
}

/// Whether a Node's name may begin with the text.
fn is_name_prefix(prefix: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    prefix.bytes().all(known) && !prefix.starts_with('-')
}

const DISK_FIELDS: [&str; 5] = ["name", "size", "type", "boot", "tags"];
const NIC_FIELDS: [&str; 5] = ["name", "network", "sourceDestinationCheck", "ipv6", "tags"];
/// Default size of a disk.
const DISK_SIZE: &str = "20Gi";

/// The disks; without any, one boot disk. If none is marked as boot disk, the first one is.
fn disks(fields: &Map<String, Value>, settings: &Settings) -> Result<Vec<DiskSpec>, DriverError> {
    let mut disks: Vec<DiskSpec> = Vec::new();
    for (index, (path, item)) in objects(fields, "disks")?.into_iter().enumerate() {
        known_fields(item, &path, &DISK_FIELDS)?;
        let disk = DiskSpec {
            name: part_name(item, &path, index)?,
            size: text_or(item, &path, "size", DISK_SIZE)?,
            kind: text_or(item, &path, "type", "standard")?,
            boot: flag(item, &path, "boot", false)?,
            tags: tags(item, &format!("{path}."), settings)?,
        };
        if !is_quantity(&disk.size) {
            return Err(wrong(
                &format!("{path}.size"),
                "must be a positive quantity, for example 50Gi",
            ));
        }
        if disk.boot && disks.iter().any(|other| other.boot) {
            return Err(wrong(
                &format!("{path}.boot"),
                "is set for a second disk; a VM has one boot disk",
            ));
        }
        unique(disks.iter().map(|other| other.name.as_str()), &disk.name, &path)?;
        disks.push(disk);
    }
    at_most("disks", disks.len(), settings.limits.disks).map_err(|error| wrong("disks", &error.to_string()))?;
    if disks.is_empty() {
        disks.push(DiskSpec {
            name: "boot".to_owned(),
            size: DISK_SIZE.to_owned(),
            kind: "standard".to_owned(),
            ..DiskSpec::default()
        });
    }
    if !disks.iter().any(|disk| disk.boot) {
        disks[0].boot = true;
    }
    Ok(disks)
}

/// The network interfaces; by default one.
fn nics(fields: &Map<String, Value>, settings: &Settings) -> Result<Vec<NicSpec>, DriverError> {
    let mut nics: Vec<NicSpec> = Vec::new();
    for (index, (path, item)) in objects(fields, "nics")?.into_iter().enumerate() {
        known_fields(item, &path, &NIC_FIELDS)?;
        let nic = NicSpec {
            name: part_name(item, &path, index)?,
            network: text_or(item, &path, "network", "default")?,
            flags: NicFlags {
                source_destination_check: flag(item, &path, "sourceDestinationCheck", true)?,
                ipv6: flag(item, &path, "ipv6", false)?,
            },
            tags: tags(item, &format!("{path}."), settings)?,
        };
        unique(nics.iter().map(|other| other.name.as_str()), &nic.name, &path)?;
        nics.push(nic);
    }
    at_most("nics", nics.len(), settings.limits.nics).map_err(|error| wrong("nics", &error.to_string()))?;
    if nics.is_empty() {
        nics.push(NicSpec {
            name: "primary".to_owned(),
            network: "default".to_owned(),
            ..NicSpec::default()
        });
    }
    Ok(nics)
}

fn known_fields(item: &Map<String, Value>, path: &str, known: &[&str]) -> Result<(), DriverError> {
    match item.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => {
            let reason = format!("is unknown; the fields are {}", known.join(", "));
            Err(wrong(&format!("{path}.{field}"), &reason))
        }
        None => Ok(()),
    }
}

/// The part's name; by default its index in the list.
fn part_name(item: &Map<String, Value>, path: &str, index: usize) -> Result<String, DriverError> {
    text_or(item, path, "name", &index.to_string())
}

fn text_or(item: &Map<String, Value>, path: &str, field: &str, default: &str) -> Result<String, DriverError> {
    match item.get(field) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(_) => Err(wrong(&format!("{path}.{field}"), "must be a text that is not empty")),
    }
}

fn flag(item: &Map<String, Value>, path: &str, field: &str, default: bool) -> Result<bool, DriverError> {
    match item.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(wrong(&format!("{path}.{field}"), "must be true or false")),
    }
}

fn unique<'a>(mut others: impl Iterator<Item = &'a str>, name: &str, path: &str) -> Result<(), DriverError> {
    if others.any(|other| other == name) {
        let reason = format!("{name:?} is in the list twice; names are unique");
        return Err(wrong(&format!("{path}.name"), &reason));
    }
    Ok(())
}

/// The tags of the object at `path`, within the cloud's limits.
fn tags(item: &Map<String, Value>, path: &str, settings: &Settings) -> Result<BTreeMap<String, String>, DriverError> {
    let tags = texts(item, path, "tags")?;
    check_tags(&tags, &settings.limits).map_err(|error| {
        let index = error.key().map(|key| format!("[{key}]")).unwrap_or_default();
        wrong(&format!("{path}tags{index}"), &error.to_string())
    })?;
    Ok(tags)
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

fn texts(fields: &Map<String, Value>, path: &str, field: &str) -> Result<BTreeMap<String, String>, DriverError> {
    let entries = match fields.get(field) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err(wrong(&format!("{path}{field}"), "must be an object of texts")),
    };
    let entry = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        _ => Err(wrong(
            &format!("{path}{field}[{key}]"),
            "must be a text; put it in quotes",
        )),
    };
    entries.iter().map(entry).collect()
}

/// Objects of a list with their paths.
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
    use crate::Config;

    fn configured(yaml: &str) -> Settings {
        Config::from_yaml("test", yaml).unwrap().settings().cloud
    }

    #[test]
    fn a_whole_provider_spec_is_read() {
        let value = json!({
            "machineType": "small", "image": "linux-1", "zone": "local-1", "region": "local",
            "disks": [{"name": "boot", "size": "50Gi"}], "nics": [{"network": "default"}],
            "tags": {"kubernetes.io/cluster/shoot": "1"},
            "labels": {"pool": "a"}, "taints": [{"key": "starting", "effect": "NoSchedule"}], "nodeNamePrefix": "ip-",
        });
        let spec = ProviderSpec::read(&value, &configured("")).unwrap();
        assert_eq!(spec.disks[0].name, "boot");
        assert!(spec.disks[0].boot);
        assert_eq!(spec.nics[0].network, "default");
        assert_eq!(spec.taints[0].effect, "NoSchedule");
        assert_eq!(spec.node_name_prefix, "ip-");
    }

    #[rstest]
    #[case::no_object(json!("small"), "providerSpec: must be an object")]
    #[case::unknown_field(json!({"machinetype": "small"}), "providerSpec.machinetype: is unknown")]
    #[case::missing(json!({"machineType": "small", "zone": "a"}), "providerSpec.image: is missing")]
    #[case::unknown_type(
        json!({"machineType": "huge", "image": "i", "zone": "a"}),
        "this cloud has large, medium, small"
    )]
    #[case::bad_zone(json!({"machineType": "small", "image": "i", "zone": "A/b"}), "providerSpec.zone: must consist")]
    #[case::bad_tag(
        json!({"machineType": "small", "image": "i", "zone": "a", "tags": {"n": 1}}),
        "providerSpec.tags[n]"
    )]
    #[case::bad_disk(
        json!({"machineType": "small", "image": "i", "zone": "a", "disks": [{"size": []}]}),
        "providerSpec.disks[0].size"
    )]
    #[case::same_name(
        json!({"machineType": "small", "image": "i", "zone": "a", "disks": [{"name": "a"}, {"name": "a"}]}),
        "disks[1].name"
    )]
    #[case::unknown_disk_field(
        json!({"machineType": "small", "image": "i", "zone": "a", "disks": [{"sise": "1Gi"}]}),
        "disks[0].sise: is unknown; the fields are name, size, type, boot, tags"
    )]
    #[case::bad_size(
        json!({"machineType": "small", "image": "i", "zone": "a", "disks": [{"size": "big"}]}),
        "disks[0].size: must be a positive quantity"
    )]
    #[case::two_to_boot(
        json!({"machineType": "small", "image": "i", "zone": "a", "disks": [{"boot": true}, {"boot": true}]}),
        "disks[1].boot"
    )]
    #[case::bad_flag(
        json!({"machineType": "small", "image": "i", "zone": "a", "nics": [{"ipv6": "yes"}]}),
        "nics[0].ipv6: must be true or false"
    )]
    #[case::bad_disk_tag(
        json!({"machineType": "small", "image": "i", "zone": "a", "disks": [{"tags": {"a": 1}}]}),
        "providerSpec.disks[0].tags[a]"
    )]
    #[case::long_tag(
        json!({"machineType": "small", "image": "i", "zone": "a", "tags": {"a": "x".repeat(257)}}),
        "providerSpec.tags[a]: the value has 257 characters; at most 256"
    )]
    #[case::bad_taint(
        json!({"machineType": "small", "image": "i", "zone": "a", "taints": [{"key": "a", "effect": "No"}]}),
        "taints[0].effect"
    )]
    #[case::bad_prefix(
        json!({"machineType": "small", "image": "i", "zone": "a", "nodeNamePrefix": "Ip-"}),
        "providerSpec.nodeNamePrefix: must consist"
    )]
    fn an_invalid_field_is_named_with_its_fix(#[case] value: Value, #[case] expected: &str) {
        let error = ProviderSpec::read(&value, &configured("")).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains(expected), "{}", error.message);
    }

    #[rstest]
    #[case::image("images: [linux-1]", "providerSpec.image: \"i\" is unknown; this cloud has linux-1")]
    #[case::required_tag("requiredTags: [owner]", "providerSpec.tags[owner]: is missing")]
    #[case::too_many_nics("limits: {nics: 1}", "providerSpec.nics: there are 2 nics; at most 1 are allowed")]
    #[case::too_many_disks("limits: {disks: 1}", "providerSpec.disks: there are 2 disks; at most 1 are allowed")]
    #[case::too_many_tags("limits: {tags: 1}", "providerSpec.tags: there are 2 tags; at most 1 are allowed")]
    #[case::other_region(
        "regions: {near: [a], far: [b]}",
        "providerSpec.region: \"far\" is not the region of zone a, which is near"
    )]
    fn a_field_that_this_cloud_rejects_is_named(#[case] config: &str, #[case] expected: &str) {
        let settings = configured(config);
        let value = json!({
            "machineType": "small", "image": "i", "zone": "a", "region": "far", "tags": {"a": "1", "b": "2"},
            "disks": [{"name": "a"}, {"name": "b"}], "nics": [{"name": "a"}, {"name": "b"}],
        });
        let error = ProviderSpec::read(&value, &settings).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.starts_with(expected), "{}", error.message);
    }

    #[test]
    fn a_vm_has_a_boot_disk_and_an_interface_by_default() {
        let value = json!({"machineType": "small", "image": "i", "zone": "a"});
        let spec = ProviderSpec::read(&value, &configured("")).unwrap();
        assert_eq!((spec.disks.len(), spec.disks[0].boot, spec.nics.len()), (1, true, 1));
    }

    #[test]
    fn only_configured_zones_are_accepted() {
        let settings = Settings {
            zones: vec!["near".to_owned()],
            ..configured("")
        };
        let value = json!({"machineType": "small", "image": "i", "zone": "far"});
        let error = ProviderSpec::read(&value, &settings).unwrap_err();
        assert_eq!(
            error.message,
            "providerSpec.zone: \"far\" is unknown; this cloud has near"
        );
    }
}
