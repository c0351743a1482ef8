//! The kind that the controller of the user serves: its definition, and an object of it.

use std::path::{Path, PathBuf};

use apiserver::schema::StructuralSchema;
use scenario::closest::suggestion;
use serde_json::Value;

use super::super::Stop;
use super::sample;

/// A kind of a CustomResourceDefinition.
#[derive(Debug)]
pub(super) struct OwnKind {
    pub(super) kind: String,
    pub(super) api_version: String,
    /// For instance `widgets.example.com`.
    pub(super) resource: String,
    /// The schema of the stored version.
    schema: Value,
    /// The file of the definition.
    file: PathBuf,
}

impl OwnKind {
    /// The kind of that name among the definitions in these files; without a name they must define one only.
    pub(super) fn choose(files: &[PathBuf], name: Option<&str>) -> Result<Self, Stop> {
        let mut kinds = Vec::new();
        for file in files {
            let definitions = read(file)?.into_iter();
            kinds.extend(definitions.filter_map(|definition| Self::of_definition(file, &definition)));
        }
        let names: Vec<String> = kinds.iter().map(|kind| kind.kind.clone()).collect();
        let shown = names.join(", ");
        match name {
            Some(name) => kinds.into_iter().find(|kind| kind.kind == name).ok_or_else(|| {
                let near = suggestion(name, names.iter().map(String::as_str));
                Stop::Usage(format!("--kind {name}: no --crd file defines it; {near}"))
            }),
            None if kinds.len() > 1 => Err(Stop::Usage(format!(
                "--crd: the files define {shown}: choose one with --kind"
            ))),
            None => kinds.into_iter().next().ok_or_else(|| {
                let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                Stop::Usage(format!(
                    "--crd {}: it contains no CustomResourceDefinition with a served version and a schema",
                    files.join(", ")
                ))
            }),
        }
    }

    /// The kind of a definition, in its stored version; `None`: it is no complete definition.
    fn of_definition(file: &Path, definition: &Value) -> Option<Self> {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str);
        let (group, kind, plural) = (
            text("/spec/group")?,
            text("/spec/names/kind")?,
            text("/spec/names/plural")?,
        );
        let mut versions: Vec<&Value> = definition.pointer("/spec/versions")?.as_array()?.iter().collect();
        versions.retain(|version| version["served"] == true);
        versions.sort_by_key(|version| version["storage"] != true);
        let version = versions.first()?;
        Some(Self {
            kind: kind.to_owned(),
            api_version: format!("{group}/{}", version["name"].as_str()?),
            resource: format!("{plural}.{group}"),
            schema: version.pointer("/schema/openAPIV3Schema")?.clone(),
            file: file.to_owned(),
        })
    }

    /// An object of the kind: that of the file, or one with the required fields.
    pub(super) fn object(&self, file: Option<&Path>) -> Result<Value, Stop> {
        let Some(file) = file else {
            let object = sample::object(&self.api_version, &self.kind, &self.schema);
            return match self.problem(&object) {
                None => Ok(object),
                Some(problem) => Err(Stop::Usage(format!(
                    "{}: init does not know a valid {}: {problem}; give one with --object FILE",
                    self.file.display(),
                    self.kind
                ))),
            };
        };
        let is_of_kind = |object: &Value| object["kind"] == *self.kind && object["apiVersion"] == *self.api_version;
        let mut object = read(file)?.into_iter().find(is_of_kind).ok_or_else(|| {
            Stop::Usage(format!(
                "--object {}: it contains no {} of {}",
                file.display(),
                self.kind,
                self.api_version
            ))
        })?;
        if !object["metadata"]["name"].is_string() {
            return Err(Stop::Usage(format!(
                "--object {}: metadata.name is missing: set it",
                file.display()
            )));
        }
        // The scenario has its own namespace.
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        match self.problem(&object) {
            None => Ok(object),
            Some(problem) => Err(Stop::Usage(format!("--object {}: {problem}", file.display()))),
        }
    }

    /// Why the API server refuses an object; `None`: it accepts it.
    fn problem(&self, object: &Value) -> Option<String> {
        let Ok(schema) = StructuralSchema::compile(&self.schema) else {
            return Some("its schema is not valid".to_owned());
        };
        let mut stored = object.clone();
        if schema.default(&mut stored).is_err() {
            return Some("its defaults are too large".to_owned());
        }
        let errors = schema.validate(&stored, None);
        errors.first().map(ToString::to_string)
    }

    /// The condition that the controller has noticed an object, as YAML.
    pub(super) fn condition(&self, name: &str) -> String {
        let reference = self.reference();
        let has = |pointer: &str| self.schema.pointer(&format!("/properties/status{pointer}")).is_some();
        if has("/properties/observedGeneration") {
            format!("observed: {{{reference}, name: {name}}}")
        } else if has("") {
            format!("not: {{field: {{{reference}, name: {name}, field: /status, is: null}}}}")
        } else {
            format!("exists: {{{reference}, name: {name}}}")
        }
    }

    /// The fields that identify the kind, as YAML.
    pub(super) fn reference(&self) -> String {
        format!("apiVersion: {}, kind: {}", self.api_version, self.kind)
    }
}

/// The objects of a YAML file.
fn read(file: &Path) -> Result<Vec<Value>, Stop> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| Stop::Usage(format!("cannot read {shown}: {error}")))?;
    serde_saphyr::from_multiple(&text)
        .map_err(|error| Stop::Usage(format!("{shown} is not valid YAML: {}", error.without_snippet())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [color]
            properties: {color: {type: string, pattern: '^#[0-9a-f]{6}$'}}
          status: {type: object, properties: {observedGeneration: {type: integer}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

    fn choose(name: Option<&str>) -> Result<OwnKind, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("crds.yaml");
        std::fs::write(&file, TWO).unwrap();
        OwnKind::choose(&[file], name).map_err(|stop| stop.to_string())
    }

    #[test]
    fn one_of_several_kinds_is_chosen_by_name() {
        let several = choose(None).unwrap_err();
        assert_eq!(
            several,
            "--crd: the files define Widget, Gadget: choose one with --kind"
        );
        let widget = choose(Some("Widget")).unwrap();
        assert_eq!(widget.api_version, "example.com/v1");
        assert_eq!(widget.resource, "widgets.example.com");
        let unknown = choose(Some("Wigdet")).unwrap_err();
        assert!(unknown.ends_with("did you mean \"Widget\"?"), "{unknown}");
    }

    #[test]
    fn an_object_that_cannot_be_derived_must_be_given() {
        let widget = choose(Some("Widget")).unwrap();
        let unknown = widget.object(None).unwrap_err().to_string();
        assert!(
            unknown.contains("spec.color") && unknown.contains("--object FILE"),
            "{unknown}"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("widget.yaml");
        let text =
            "{apiVersion: example.com/v1, kind: Widget, metadata: {name: red, namespace: a}, spec: {color: '#ff0000'}}";
        std::fs::write(&file, text).unwrap();
        let object = widget.object(Some(&file)).unwrap();
        assert_eq!(object["metadata"], serde_json::json!({ "name": "red" }));
    }

    #[test]
    fn the_status_decides_what_is_expected() {
        let observed = choose(Some("Widget")).unwrap().condition("first");
        assert_eq!(
            observed,
            "observed: {apiVersion: example.com/v1, kind: Widget, name: first}"
        );
        let exists = choose(Some("Gadget")).unwrap().condition("first");
        assert!(exists.starts_with("exists: "), "{exists}");
    }
}
