//! Nodes without machines: VMs created in bulk, for clusters with existing nodes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::spec::EFFECTS;
use super::{Caller, Cloud, DiskSpec, Owner, ProviderSpec, Record, RecordKind, Taint, UserData};
use crate::syntax::is_zone;

/// Maximum number of VMs of one command.
const MAX_NODES: u32 = 10_000;
/// Default prefix of the nodes' names.
const PREFIX: &str = "node";
/// The image of VMs without a machine class.
const IMAGE: &str = "simulated";
/// Maximum length of a name that is also a label value.
const NAME_LIMIT: usize = 63;

/// Kind and number of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesSpec {
    /// 1 to 10,000.
    pub count: u32,
    /// Nodes are named `PREFIX-0`, `PREFIX-1` and so on, skipping names of live VMs. Empty: `node`.
    pub prefix: String,
    /// Zones that the nodes use in turn. Empty: the configured ones, or `REGION-1` if there are none.
    pub zones: Vec<String>,
    /// One of the configured machine types.
    pub machine_type: String,
    /// Labels with which the kubelets register.
    pub labels: BTreeMap<String, String>,
    /// Taints with which the kubelets register.
    pub taints: Vec<Taint>,
}

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct NodesError {
    /// The field's path in the control contract.
    pub field: String,
    /// The error and the fix.
    pub reason: String,
}

impl Cloud {
    /// Creates VMs without machines, all or none; returns the names of their Nodes. They have no namespace, class and
    /// tags, so no driver call finds them.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn create_nodes(&mut self, spec: NodesSpec, now: Timestamp) -> Result<Vec<String>, NodesError> {
        let spec = self.checked(spec)?;
        self.advance(now);
        let record = Record::new(RecordKind::Command, Caller::Control, "CreateNodes", now);
        self.log
            .append(record.saying(format!("{} named {}-*", spec.count, spec.prefix)));
        let names = self.free_names(&spec);
        for (name, zone) in names.iter().zip(spec.zones.iter().cycle()) {
            let owner = Owner {
                name: name.clone(),
                ..Owner::default()
            };
            let of_vm = ProviderSpec {
                machine_type: spec.machine_type.clone(),
                image: IMAGE.to_owned(),
                zone: zone.clone(),
                labels: spec.labels.clone(),
                taints: spec.taints.clone(),
                disks: vec![DiskSpec {
                    name: "boot".to_owned(),
                    size: "20Gi".to_owned(),
                    kind: "standard".to_owned(),
                    boot: true,
                    ..DiskSpec::default()
                }],
                ..ProviderSpec::default()
            };
            self.create_from_parts(owner, of_vm, UserData::default(), now);
        }
        self.advance(now);
        Ok(names)
    }

    /// The first names that no live VM has in any namespace, because Nodes have none.
    fn free_names(&self, spec: &NodesSpec) -> Vec<String> {
        let taken: BTreeSet<&str> = self.live.keys().filter_map(|key| key.rsplit('/').next()).collect();
        (0_u64..)
            .map(|number| format!("{}-{number}", spec.prefix))
            .filter(|name| !taken.contains(name.as_str()))
            .take(spec.count as usize)
            .collect()
    }

    /// The specification with its defaults.
    fn checked(&self, mut spec: NodesSpec) -> Result<NodesSpec, NodesError> {
        if !(1..=MAX_NODES).contains(&spec.count) {
            return wrong("count", format!("is {}, and must be from 1 to {MAX_NODES}", spec.count));
        }
        if spec.prefix.is_empty() {
            PREFIX.clone_into(&mut spec.prefix);
        }
        // The longest number that can follow, with its dash.
        let max_length = NAME_LIMIT - 1 - (self.live_count() + MAX_NODES as usize).to_string().len();
        if !is_zone(&spec.prefix) || spec.prefix.len() > max_length {
            let reason = format!(
                "{:?} is not a valid prefix: write lower-case letters, digits and dashes, at most {max_length}",
                spec.prefix
            );
            return wrong("name_prefix", reason);
        }
        if spec.zones.is_empty() {
            spec.zones = self.settings.all_zones();
        }
        if spec.zones.is_empty() {
            spec.zones.push(format!("{}-1", self.settings.region));
        }
        for (index, zone) in spec.zones.iter().enumerate() {
            if !is_zone(zone) {
                let reason = format!("{zone:?} is not a valid zone: write lower-case letters, digits and dashes");
                return wrong(&format!("zones[{index}]"), reason);
            }
            let known = self.settings.all_zones();
            if !known.is_empty() && !known.contains(zone) {
                let reason = format!("{zone:?} is unknown; this cloud has {}", known.join(", "));
                return wrong(&format!("zones[{index}]"), reason);
            }
        }
        if !self.settings.machine_types.contains_key(&spec.machine_type) {
            let known: Vec<&str> = self.settings.machine_types.keys().map(String::as_str).collect();
            let reason = format!(
                "{:?} is unknown; this cloud has {}",
                spec.machine_type,
                known.join(", ")
            );
            return wrong("machine_type", reason);
        }
        for (key, value) in &spec.labels {
            let field = format!("labels[{key}]");
            if !is_key(key) {
                return wrong(
                    &field,
                    "the key is invalid; write one such as pool or example.com/pool".to_owned(),
                );
            }
            if !is_value(value) {
                return wrong(&field, format!("{value:?} is not a label value: {VALUES}"));
            }
        }
        for (index, taint) in spec.taints.iter().enumerate() {
            let field = |name: &str| format!("taints[{index}].{name}");
            if !is_key(&taint.key) {
                let reason = format!("{:?} is not a taint key; write one such as dedicated", taint.key);
                return wrong(&field("key"), reason);
            }
            if !is_value(&taint.value) {
                return wrong(
                    &field("value"),
                    format!("{:?} is not a taint value: {VALUES}", taint.value),
                );
            }
            if !EFFECTS.contains(&taint.effect.as_str()) {
                let reason = format!("{:?} is not an effect; write {}", taint.effect, EFFECTS.join(", "));
                return wrong(&field("effect"), reason);
            }
        }
        Ok(spec)
    }
}

const VALUES: &str =
    "write at most 63 letters, digits, dots, dashes and underscores, beginning and ending with a letter or a digit";

fn wrong<T>(field: &str, reason: String) -> Result<T, NodesError> {
    Err(NodesError {
        field: field.to_owned(),
        reason,
    })
}

/// Whether Kubernetes accepts the text as a label value or taint value.
fn is_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// Whether Kubernetes accepts the text as a label key or taint key: `NAME` or `DOMAIN/NAME`.
fn is_key(text: &str) -> bool {
    let Some((domain, name)) = text.split_once('/') else {
        return is_name(text);
    };
    is_name(name) && domain.len() <= 253 && domain.split('.').all(is_zone)
}

fn is_name(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    bytes.len() <= NAME_LIMIT && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
}

#[cfg(test)]
mod tests {
    use clock::Seed;
    use jiff::SignedDuration;
    use rstest::rstest;

    use super::*;
    use crate::Config;
    use crate::model::{Reference, VmState, test_request as request};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
    }

    fn cloud(yaml: &str) -> Cloud {
        Cloud::new(
            Config::from_yaml("test", yaml).unwrap().settings().cloud,
            Seed::new(1),
            at(0),
        )
    }

    fn three() -> NodesSpec {
        NodesSpec {
            count: 3,
            machine_type: "small".to_owned(),
            ..NodesSpec::default()
        }
    }

    #[test]
    fn nodes_get_the_first_free_names_and_use_the_zones_in_turn() {
        let mut cloud = cloud("zones: [local-1, near, far]");
        cloud.create_machine(&request("node-1"), at(0)).result.unwrap();
        let two_zones = NodesSpec {
            zones: vec!["near".to_owned(), "far".to_owned()],
            ..three()
        };
        assert_eq!(
            cloud.create_nodes(two_zones, at(1)).unwrap(),
            ["node-0", "node-2", "node-3"]
        );
        let zones: Vec<&str> = cloud.vms().map(|vm| vm.zone.as_str()).collect();
        assert_eq!(zones, ["local-1", "near", "far", "near"]);
        assert_eq!(
            cloud.create_nodes(three(), at(1)).unwrap(),
            ["node-4", "node-5", "node-6"]
        );
        let zones: Vec<&str> = cloud.vms().skip(4).map(|vm| vm.zone.as_str()).collect();
        assert_eq!(zones, ["local-1", "near", "far"]);
        cloud.advance(at(60));
        assert!(cloud.vms().all(|vm| vm.state == VmState::Running));
    }

    #[test]
    fn no_driver_call_finds_a_node_without_a_machine() {
        let mut cloud = cloud("{}");
        cloud.create_nodes(three(), at(0)).unwrap();
        let mut of_node = request("node-0");
        of_node.machine.metadata.namespace = None;
        for class in [request("node-0"), of_node] {
            let mut untagged = class.clone();
            untagged.class.provider_spec["tags"] = serde_json::json!({});
            for request in [class, untagged] {
                let listed = cloud.list_machines(&request.class, &request.secret, "", at(1));
                assert_eq!(listed.result.unwrap(), BTreeMap::new());
            }
        }
        cloud.create_machine(&request("node-0"), at(2)).result.unwrap();
        cloud.delete_machine(&request("node-0"), "", at(3)).result.unwrap();
        assert!(cloud.find(&Reference::Machine("node-0".to_owned())).is_ok());
    }

    #[rstest]
    #[case::none(|spec: &mut NodesSpec| spec.count = 0, "count: is 0, and must be from 1 to 10000")]
    #[case::too_many(|spec: &mut NodesSpec| spec.count = 10_001, "count: is 10001")]
    #[case::bad_prefix(
        |spec: &mut NodesSpec| spec.prefix = "Node".to_owned(),
        "name_prefix: \"Node\" is not a valid prefix"
    )]
    #[case::long_prefix(|spec: &mut NodesSpec| spec.prefix = "n".repeat(58), "at most 57")]
    #[case::bad_zone(
        |spec: &mut NodesSpec| spec.zones = vec!["near".to_owned(), "A/b".to_owned()],
        "zones[1]: \"A/b\" is not a valid zone"
    )]
    #[case::unknown_zone(
        |spec: &mut NodesSpec| spec.zones = vec!["far".to_owned()],
        "zones[0]: \"far\" is unknown; this cloud has near"
    )]
    #[case::no_type(
        |spec: &mut NodesSpec| spec.machine_type.clear(),
        "machine_type: \"\" is unknown; this cloud has large, medium, small"
    )]
    #[case::bad_label(
        |spec: &mut NodesSpec| drop(spec.labels.insert("a/b/c".to_owned(), String::new())),
        "labels[a/b/c]: the key is invalid"
    )]
    #[case::bad_value(
        |spec: &mut NodesSpec| drop(spec.labels.insert("example.com/pool".to_owned(), "a b".to_owned())),
        "labels[example.com/pool]: \"a b\" is not a label value"
    )]
    #[case::no_taint(
        |spec: &mut NodesSpec| spec.taints = vec![Taint::default()],
        "taints[0].key: \"\" is not a taint key"
    )]
    #[case::bad_effect(
        |spec: &mut NodesSpec| spec.taints = vec![Taint { key: "a".to_owned(), value: "b".to_owned(), effect: "No".to_owned() }],
        "taints[0].effect: \"No\" is not an effect; write NoSchedule"
    )]
    fn an_invalid_field_is_named_and_no_vm_is_created(
        #[case] spoil: impl FnOnce(&mut NodesSpec),
        #[case] expected: &str,
    ) {
        let mut cloud = cloud("zones: [near]");
        let mut spec = three();
        spoil(&mut spec);
        let error = cloud.create_nodes(spec, at(0)).unwrap_err().to_string();
        assert!(error.starts_with(expected) || error.ends_with(expected), "{error}");
        assert_eq!((cloud.live_count(), cloud.log().last()), (0, 0));
    }

    #[rstest]
    #[case::one_letter("a".into(), true)]
    #[case::at_the_length_limit("a".repeat(63), true)]
    #[case::too_long("a".repeat(64), false)]
    #[case::all_legal_characters("a-b_c.D9".into(), true)]
    #[case::nothing(String::new(), false)]
    #[case::a_dash_in_front("-a".into(), false)]
    #[case::a_dot_at_the_end("a.".into(), false)]
    #[case::a_blank("a b".into(), false)]
    #[case::another_alphabet("ä".into(), false)]
    fn names_are_validated_as_kubernetes_does(#[case] text: String, #[case] expected: bool) {
        assert_eq!(is_name(&text), expected);
        assert_eq!(is_key(&text), expected);
        assert_eq!(is_key(&format!("example.com/{text}")), expected);
        assert_eq!(is_value(&text), expected || text.is_empty());
    }

    #[rstest]
    #[case::at_the_length_limit(
        format!("{}/a", ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".")),
        true
    )]
    #[case::too_long(
        format!("{}/a", ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(62)].join(".")),
        false
    )]
    #[case::no_domain("/a".into(), false)]
    #[case::two_slashes("a/b/c".into(), false)]
    fn domains_of_keys_are_validated_as_kubernetes_does(#[case] text: String, #[case] expected: bool) {
        assert_eq!(is_key(&text), expected);
    }
}
