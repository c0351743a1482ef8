use std::path::PathBuf;

use rstest::rstest;
use serde_json::json;
use tempfile::TempDir;

use super::Manifest;
use crate::plan::Plan;
use crate::{Deprecations, Scenario, World};

const WIDGETS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
          status: {type: object, properties: {ready: {type: boolean}}}
";

const ROLES: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata: {name: widget-controller}
---
apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: widget-controller}
  rules: [{apiGroups: [example.com], resources: [widgets], verbs: ['*']}]
";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("crds")).unwrap();
    std::fs::write(folder.path().join("crds/widgets.yaml"), WIDGETS).unwrap();
    std::fs::write(folder.path().join("roles.yaml"), ROLES).unwrap();
    folder
}

fn write(folder: &TempDir, world: &str, steps: &str) -> PathBuf {
    let path = folder.path().join("story.yaml");
    std::fs::write(
        &path,
        format!("name: story\nabout: A story.\nworld: {world}\nsteps:\n{steps}\n"),
    )
    .unwrap();
    path
}

/// The error of a scenario in a file, without the path of the folder.
fn error(folder: &TempDir, world: &str, steps: &str) -> Option<String> {
    let read = Scenario::read(&write(folder, world, steps), &mut Deprecations::default());
    let prefix = format!("{}/", folder.path().display());
    read.err().map(|error| error.to_string().replace(&prefix, ""))
}

const WORLD: &str = "{crds: [crds/widgets.yaml], manifests: [roles.yaml]}";
const WIDGET: &str =
    "- apply: {object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 3}}}\n";

#[rstest]
#[case::an_object("- delete: {kind: Widget, name: w}")]
#[case::an_object_with_its_version("- delete: {apiVersion: example.com/v1, kind: Widget, name: w}")]
#[case::a_field(
    "- expect: {that: {field: {apiVersion: example.com/v1, kind: Widget, name: w, field: /status/ready, is: true}}, holds: {eventually: 1m}}"
)]
#[case::a_patch("- patch: {kind: Widget, name: w, merge: {spec: {size: 4}}}")]
#[case::an_annotation("- annotate: {kind: Widget, name: w, annotations: {a: b}}")]
#[case::an_object_of_the_world("- delete: {kind: Role, name: widget-controller}")]
#[case::a_kind_of_kubernetes(
    "- expect: {that: {exists: {kind: ServiceAccount, name: widget-controller}}, holds: {eventually: 1m}}"
)]
#[case::a_resource(
    "- apiFault: {rule: {name: a, match: {resource: widgets.example.com, object: w}, action: {drop: {at: beforeCommit}}}}"
)]
fn steps_and_conditions_use_own_kinds(#[case] step: &str) {
    assert_eq!(error(&folder(), WORLD, &format!("{WIDGET}{step}")), None);
}

#[rstest]
#[case::a_name(
    "- delete: {kind: Widget, name: v}",
    "steps[1].delete.name: the scenario creates no Widget \"v\"; the closest is \"w\"; add it to `world.creates` if the \
     controller under test creates it"
)]
#[case::a_field_of_a_condition(
    "- expect: {that: {field: {kind: Widget, name: w, field: /status/redy, is: true}}, holds: {eventually: 1m}}",
    "\"/status/redy\" is not a field of a Widget: it has no \"redy\"; did you mean \"ready\"?"
)]
#[case::a_field_of_an_object(
    "- patch: {kind: Widget, name: w, merge: {spec: {sice: 4}}}",
    "steps[1].patch.merge.spec.sice: unknown field \"sice\"; did you mean \"size\"?"
)]
#[case::a_version(
    "- delete: {apiVersion: example.com/v2, kind: Widget, name: w}",
    "steps[1].delete.apiVersion: \"example.com/v2\" has no kind Widget; write \"example.com/v1\""
)]
#[case::a_resource(
    "- apiFault: {rule: {name: a, match: {resource: widgetz}, action: {drop: {at: beforeCommit}}}}",
    "no resource matches \"widgetz\"; the closest is \"widgets\""
)]
fn mistakes_about_own_kinds_are_refused(#[case] step: &str, #[case] expected: &str) {
    let error = error(&folder(), WORLD, &format!("{WIDGET}{step}")).unwrap();
    assert!(error.contains(expected), "{error}");
}

#[rstest]
#[case::a_missing_file(
    "{crds: [crds/gadgets.yaml]}",
    "story.yaml:3:16: world.crds[0]: cannot read \"crds/gadgets.yaml\": No such file"
)]
#[case::no_definition(
    "{crds: [roles.yaml]}",
    "story.yaml:3:16: world.crds[0]: roles.yaml, object 1: kind: \"ServiceAccount\" is no CustomResourceDefinition: move the file to `world.manifests`"
)]
#[case::a_kind_without_a_definition(
    "{manifests: [{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}]}",
    "world.manifests[0].kind: unknown kind \"Widget\"; the definition of a kind of your own belongs in `world.crds`"
)]
#[case::a_field(
    "{manifests: [{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrts: []}]}",
    "world.manifests[0].secrts: unknown field \"secrts\"; did you mean \"secrets\"?"
)]
#[case::a_number("{manifests: [3]}", "found 3, expected the name of a file, or an object")]
fn an_invalid_manifest_is_refused(#[case] world: &str, #[case] expected: &str) {
    let error = error(&folder(), world, "- wait: 1s").unwrap();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn objects_that_the_controller_under_test_creates_can_be_named() {
    let world = "{crds: [crds/widgets.yaml], creates: [{kind: ConfigMap, name: 'w-*'}]}";
    let expects = |name: &str| {
        format!("{WIDGET}- expect: {{that: {{exists: {{kind: ConfigMap, name: {name}}}}}, holds: {{eventually: 1m}}}}")
    };
    assert_eq!(error(&folder(), world, &expects("w-settings")), None);
    let refused = error(&folder(), world, &expects("settings")).unwrap();
    assert!(refused.contains("add it to `world.creates`"), "{refused}");
    let world = "{creates: [{kind: ConfigMab, name: a}]}";
    let refused = error(&folder(), world, WIDGET).unwrap();
    assert!(
        refused.contains("world.creates[0].kind: unknown kind \"ConfigMab\"; did you mean"),
        "{refused}"
    );
}

#[test]
fn a_plan_contains_the_objects_of_the_files() {
    let folder = folder();
    let scenario = Scenario::read(&write(&folder, WORLD, WIDGET), &mut Deprecations::default()).unwrap();
    let kinds: Vec<&str> = scenario
        .world
        .objects()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["CustomResourceDefinition", "ServiceAccount", "Role"]);
    let yaml = Plan::new(scenario.clone(), 1).to_yaml().unwrap();
    assert_eq!(Plan::from_yaml(&yaml, "plan.yaml", &[]).unwrap().scenario, scenario);
}

#[test]
fn a_text_without_a_file_names_no_files() {
    let text = "name: story\nabout: A story.\nworld: {crds: [a.yaml]}\nsteps: [{wait: 1s}]\n";
    let error = Scenario::from_yaml(text, "text").unwrap_err().to_string();
    assert!(error.contains("the scenario itself is not read from a file"), "{error}");
}

#[rstest]
#[case::a_binding("RoleBinding", "ServiceAccount", "controller", true)]
#[case::a_binding_in_all_namespaces("ClusterRoleBinding", "ServiceAccount", "controller", true)]
#[case::of_another_account("RoleBinding", "ServiceAccount", "other", false)]
#[case::of_a_user("RoleBinding", "User", "controller", false)]
#[case::another_kind("Role", "ServiceAccount", "controller", false)]
fn a_world_gives_rights_to_an_account_by_a_binding(
    #[case] kind: &str,
    #[case] subject: &str,
    #[case] name: &str,
    #[case] expected: bool,
) {
    let object = json!({ "kind": kind, "subjects": [{ "kind": subject, "name": name }] });
    let world = World {
        manifests: vec![Manifest::Object(object)],
        ..World::default()
    };
    assert_eq!(world.has_roles_of("controller"), expected);
}
