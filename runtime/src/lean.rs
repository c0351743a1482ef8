//! Objects without their managed fields. A controller does not read who wrote which field, and the record of it is often
//! larger than the rest of the object: it is left out before it is decoded.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The field that is left out.
const FIELD: &str = "\"managedFields\"";

/// An object that is decoded without `metadata.managedFields`, for the answers to single requests.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Lean<K>(pub K);

impl<'de, K: DeserializeOwned> Deserialize<'de> for Lean<K> {
    /// # Errors
    /// If the text is not an object of the kind. Works with `serde_json` only.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let object = serde_json::from_str(&without_managed_fields(text.get()));
        object.map(Self).map_err(D::Error::custom)
    }
}

impl<K: Resource> Resource for Lean<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(type_: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(type_)
    }

    fn group(type_: &Self::DynamicType) -> Cow<'_, str> {
        K::group(type_)
    }

    fn version(type_: &Self::DynamicType) -> Cow<'_, str> {
        K::version(type_)
    }

    fn plural(type_: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(type_)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// Replaces the managed fields of an object by `null`. Returns any other text unchanged.
pub(crate) fn without_managed_fields(text: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        #[serde(borrow)]
        managed_fields: Option<&'a RawValue>,
    }
    let range = || {
        let object: Object = serde_json::from_str(text).ok()?;
        let metadata: Metadata = serde_json::from_str(object.metadata?.get()).ok()?;
        let fields = metadata.managed_fields?.get();
        let start = (fields.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        Some((start, start + fields.len()))
    };
    if !text.contains(FIELD) {
        return Cow::Borrowed(text);
    }
    match range().and_then(|(start, end)| Some((text.get(..start)?, text.get(end..)?))) {
        Some((before, after)) => Cow::Owned([before, "null", after].concat()),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::with(
        json!({ "metadata": { "name": "a", "managedFields": [{ "manager": "x", "fieldsV1": { "f:data": {} } }] }, "data": { "a": "1" } }),
        json!({ "metadata": { "name": "a", "managedFields": null }, "data": { "a": "1" } })
    )]
    #[case::without(json!({ "metadata": { "name": "a" } }), json!({ "metadata": { "name": "a" } }))]
    #[case::elsewhere(
        json!({ "metadata": { "name": "a" }, "data": { "managedFields": "x" } }),
        json!({ "metadata": { "name": "a" }, "data": { "managedFields": "x" } })
    )]
    #[case::in_a_template(
        json!({ "metadata": {}, "template": { "metadata": { "managedFields": [1] } } }),
        json!({ "metadata": {}, "template": { "metadata": { "managedFields": [1] } } })
    )]
    #[case::no_object(json!(["\"managedFields\""]), json!(["\"managedFields\""]))]
    #[case::no_metadata(json!({ "metadata": 1, "managedFields": [] }), json!({ "metadata": 1, "managedFields": [] }))]
    fn only_the_managed_fields_of_the_object_are_left_out(#[case] object: Value, #[case] expected: Value) {
        let text = object.to_string();
        let left: Value = serde_json::from_str(&without_managed_fields(&text)).unwrap();
        assert_eq!(left, expected);
    }

    #[test]
    fn an_object_is_decoded_without_its_managed_fields() {
        let text = r#"{ "data": { "a": "1" }, "metadata": { "managedFields" : [ { "manager": "x" } ], "name": "c" } }"#;
        let Lean(object): Lean<ConfigMap> = serde_json::from_str(text).unwrap();
        assert_eq!(object.metadata.managed_fields, None);
        assert_eq!(object.metadata.name.as_deref(), Some("c"));
        assert_eq!(object.data.unwrap()["a"], "1");
    }

    #[test]
    fn an_object_of_another_kind_is_an_error() {
        assert!(serde_json::from_str::<Lean<ConfigMap>>(r#"{ "metadata": 1 }"#).is_err());
    }
}
