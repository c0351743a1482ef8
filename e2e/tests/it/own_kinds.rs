//! Scenarios about kinds of the user: definitions and roles in files, a kind that has the name of one of mcm's, and a
//! definition that a step applies.

use std::path::Path;

use rstest::rstest;
use tempfile::TempDir;

use crate::drydock::{drydock, printed};

/// A definition with that kind in that group.
fn definition(kind: &str, group: &str) -> String {
    let singular = kind.to_lowercase();
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {singular}s.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{kind: {kind}, plural: {singular}s, singular: {singular}, listKind: {kind}List}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {{type: object, properties: {{size: {{type: integer}}}}}}
          status: {{type: object, properties: {{ready: {{type: boolean}}, observedGeneration: {{type: integer}}}}}}
"
    )
}

const ROLES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: widget-controller}
rules:
- {apiGroups: [example.com], resources: [widgets, widgets/status], verbs: ['*']}
- {apiGroups: [''], resources: [configmaps], verbs: [get, create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: widget-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: widget-controller}
subjects: [{kind: ServiceAccount, name: machine-controller-manager, namespace: drydock}]
";

const STORY: &str = "
name: widgets
about: Objects of own kinds are created, changed, observed and deleted.
world:
  crds: [crds/widgets.yaml, crds/machines.yaml]
  manifests: [roles.yaml]
  creates: [{kind: ConfigMap, name: 'w-*'}]
steps:
- expect:
    that: {unchanged: {kind: ClusterRole, name: widget-controller, field: /rules}}
    holds: throughout
    meanwhile: true
- apply: {machine: m-1}
- apply: {object: {apiVersion: cluster.x-k8s.io/v1, kind: Machine, metadata: {name: m-1}, spec: {size: 1}}}
- apply: {object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 3}}}
- expect: {that: {field: {kind: Widget, name: w, field: /spec/size, is: 3}}, holds: {eventually: slack}}
- as:
    user: system:serviceaccount:drydock:machine-controller-manager
    step: {patch: {kind: Widget, name: w, merge: {status: {ready: true, observedGeneration: 1}}, status: true}}
- as:
    user: system:serviceaccount:drydock:machine-controller-manager
    step: {apply: {object: {apiVersion: v1, kind: ConfigMap, metadata: {name: w-settings}, data: {a: b}}}}
- expect:
    that:
      all:
      - observed: {kind: Widget, name: w}
      - field: {kind: Widget, name: w, field: /status/ready, is: true}
      - field: {kind: ConfigMap, name: w-settings, field: /data/a, is: b}
    holds: {eventually: slack}
- expect:
    that: {phase: {machine: m-1, is: Running}}
    holds: {eventually: bootDelay + slack}
- annotate: {apiVersion: cluster.x-k8s.io/v1, kind: Machine, name: m-1, annotations: {a: b}}
- expect:
    that: {field: {apiVersion: cluster.x-k8s.io/v1, kind: Machine, name: m-1, field: /metadata/annotations/a, is: b}}
    holds: {eventually: slack}
- delete: {apiVersion: cluster.x-k8s.io/v1, kind: Machine, name: m-1}
- expect:
    that: {not: {exists: {apiVersion: cluster.x-k8s.io/v1, kind: Machine, name: m-1}}}
    holds: {eventually: slack}
- expect:
    that: {exists: {apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, name: m-1}}
    holds: {always: shortRetry}
- apply:
    object:
      apiVersion: apiextensions.k8s.io/v1
      kind: CustomResourceDefinition
      metadata: {name: gadgets.example.com}
      spec:
        group: example.com
        scope: Cluster
        names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
        versions:
        - name: v1
          served: true
          storage: true
          schema:
            openAPIV3Schema:
              type: object
              properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}
- apply: {object: {apiVersion: example.com/v1, kind: Gadget, metadata: {name: g}, spec: {anything: [1, 2]}}}
- expect:
    that: {field: {kind: Gadget, name: g, field: /spec/anything/1, is: 2}}
    holds: {eventually: slack}
- forceDelete: {kind: Gadget, name: g}
- expect: {that: {not: {exists: {kind: Gadget, name: g}}}, holds: {eventually: slack}}
- delete: {kind: CustomResourceDefinition, name: gadgets.example.com}
- wait: shortRetry
";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.path().join("own").join(file), text).unwrap();
    std::fs::create_dir_all(folder.path().join("own/crds")).unwrap();
    write("crds/widgets.yaml", &definition("Widget", "example.com"));
    write("crds/machines.yaml", &definition("Machine", "cluster.x-k8s.io"));
    write("roles.yaml", ROLES);
    write("story.yaml", STORY);
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = drydock(folder, &[&["run"], arguments].concat());
    assert!(output.status.success(), "{}", printed(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[rstest]
#[case::in_virtual_time("sim")]
#[case::on_a_wall_clock("embedded")]
fn own_kinds_are_used_like_those_of_kubernetes(#[case] stage: &str) {
    run(folder().path(), &["--file", "own/story.yaml", "--stage", stage]);
}

const LEASES: &str = "
name: leases
about: The leader holds its Lease.
world:
  creates: [{kind: Lease, name: machine-controller-manager}]
steps:
- expect: {that: {exists: {kind: Lease, name: machine-controller-manager}}, holds: {eventually: 1m}}
- expect: {that: {exists: {kind: Lease, name: machine-controller-manager}}, holds: {always: 1s}}
";

#[rstest]
#[case::in_virtual_time("sim")]
#[case::on_a_wall_clock("embedded")]
fn conditions_can_be_about_leases(#[case] stage: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("leases.yaml"), LEASES).unwrap();
    run(folder.path(), &["--file", "leases.yaml", "--stage", stage]);
}

#[test]
fn a_run_with_own_kinds_is_repeated_exactly() {
    let folder = folder();
    let arguments = ["--file", "own/story.yaml", "--stage", "sim", "--seed", "5", "-v"];
    let trace = |printed: String| printed.split("trace ").nth(1).unwrap()[..64].to_owned();
    let traces = [run(folder.path(), &arguments), run(folder.path(), &arguments)].map(trace);
    assert_eq!(traces[0], traces[1]);
}

#[test]
fn the_plan_of_a_failed_run_contains_the_definitions() {
    let folder = folder();
    let failing = STORY.replace("field: /spec/size, is: 3", "field: /spec/size, is: 4");
    std::fs::write(folder.path().join("own/story.yaml"), failing).unwrap();
    let output = drydock(folder.path(), &["run", "--file", "own/story.yaml", "--stage", "sim"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    std::fs::remove_dir_all(folder.path().join("own")).unwrap();
    let plan = ".drydock/reports/sim-widgets-1/plan.yaml";
    let output = drydock(folder.path(), &["run", "--plan", plan]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(
        printed(&output).contains("Widget w has /spec/size = 3"),
        "{}",
        printed(&output)
    );
}

#[test]
fn a_cluster_that_others_use_gets_no_definitions() {
    let folder = folder();
    let arguments = [
        "run",
        "--file",
        "own/story.yaml",
        "--stage",
        "kubeconfig",
        "--kubeconfig",
        "none",
    ];
    let output = drydock(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let reason = "it creates a CustomResourceDefinition, which would remain in the cluster";
    assert!(printed(&output).contains(reason), "{}", printed(&output));
}
