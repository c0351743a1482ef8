//! Machine templates: comparison of templates, and the hash in the name of a template's set.

use mcm_api::keys;
use mcm_api::machine::{MachineConfiguration, MachineTemplateSpec};

/// Whether two values are equal; empty fields count as absent.
pub(crate) fn alike<T: serde::Serialize + PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
    if a == b {
        return true;
    }
    let value = |side: &Option<T>| serde_json::to_value(side).ok().and_then(without_empty);
    value(a) == value(b)
}

/// The value without empty fields; `None`: nothing is left.
fn without_empty(value: serde_json::Value) -> Option<serde_json::Value> {
    use serde_json::Value;
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let fields: serde_json::Map<String, Value> = fields
                .into_iter()
                .filter_map(|(name, value)| without_empty(value).map(|value| (name, value)))
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Array(items) if items.is_empty() => None,
        other => Some(other),
    }
}

/// Whether a change from `a` to `b` needs no rollout. Node template, settings and class kind are synchronized without
/// new machines; the hash label is added by this controller.
pub fn same_template(a: &MachineTemplateSpec, b: &MachineTemplateSpec) -> bool {
    let (a, b) = (essential(a), essential(b));
    a == b || written(&a) == written(&b)
}

/// The fields whose change needs a rollout.
fn essential(template: &MachineTemplateSpec) -> MachineTemplateSpec {
    let mut template = without_hash(template);
    template.spec.node_template = None;
    template.spec.configuration = MachineConfiguration::default();
    template.spec.class.kind.clear();
    template
}

fn written(template: &MachineTemplateSpec) -> String {
    let value = serde_json::to_value(template).ok().and_then(without_empty);
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The template without the label that this controller adds.
pub(crate) fn without_hash(template: &MachineTemplateSpec) -> MachineTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = &mut template.metadata.labels {
        labels.remove(keys::TEMPLATE_HASH_LABEL);
    }
    template
}

/// The hash of a template after that number of collisions: 32-bit FNV-1a over its JSON text.
pub fn hash(template: &MachineTemplateSpec, collisions: Option<i32>) -> u32 {
    const BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let text = written(&essential(template));
    let suffix = collisions.map(i32::to_le_bytes);
    let bytes = text.bytes().chain(suffix.into_iter().flatten());
    bytes.fold(BASIS, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

/// The hash that detects a change since the last complete rollout.
pub fn template_hash(template: &MachineTemplateSpec) -> String {
    hash(template, None).to_string()
}

/// The name of the set of a template with that hash. The suffix has neither vowels nor digits that resemble vowels.
pub fn set_name(deployment: &str, hash: u32) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    const LENGTH: usize = 5;
    let letters = hash.to_string().into_bytes();
    let letter = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    let suffix: String = letters.into_iter().take(LENGTH).map(letter).collect();
    format!("{deployment}-{suffix}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mcm_api::GoDuration;
    use rstest::rstest;

    use super::*;

    fn template(change: impl Fn(&mut MachineTemplateSpec)) -> MachineTemplateSpec {
        let mut template = MachineTemplateSpec::default();
        template.spec.class.name = "class-a".to_owned();
        template.spec.class.kind = "MachineClass".to_owned();
        change(&mut template);
        template
    }

    fn map(key: &str) -> Option<BTreeMap<String, String>> {
        Some(BTreeMap::from([(key.to_owned(), "x".to_owned())]))
    }

    #[rstest]
    #[case::nothing(template(|_| {}), true)]
    #[case::our_hash(template(|one| one.metadata.labels = map(keys::TEMPLATE_HASH_LABEL)), true)]
    #[case::empty_labels(template(|one| one.metadata.labels = Some(BTreeMap::new())), true)]
    #[case::class_kind(template(|one| one.spec.class.kind = "AWSMachineClass".to_owned()), true)]
    #[case::a_timeout(template(|one| one.spec.configuration.drain_timeout = Some(GoDuration::default())), true)]
    #[case::node_template(template(|one| one.spec.node_template = Some(Default::default())), true)]
    #[case::label(template(|one| one.metadata.labels = map("a")), false)]
    #[case::annotation(template(|one| one.metadata.annotations = map("a")), false)]
    #[case::class_name(template(|one| one.spec.class.name = "class-b".to_owned()), false)]
    #[case::class_group(template(|one| one.spec.class.api_group = "x".to_owned()), false)]
    #[case::provider_id(template(|one| one.spec.provider_id = "x".to_owned()), false)]
    fn only_changes_that_need_new_machines_differ(#[case] other: MachineTemplateSpec, #[case] same: bool) {
        let one = template(|_| {});
        assert_eq!(same_template(&one, &other), same);
        assert_eq!(hash(&one, None) == hash(&other, None), same);
    }

    #[test]
    fn a_collision_gives_another_name() {
        let one = template(|_| {});
        let names = [None, Some(1), Some(2)].map(|count| set_name("md", hash(&one, count)));
        assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
        assert_eq!(set_name("md", 1_234_567_890), "md-56789");
    }
}
