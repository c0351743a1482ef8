use rstest::rstest;
use serde_json::json;

use super::*;
use crate::resource::{Endpoint, Generation, Printer, Selectable, Shape, Subresource};
use crate::selector::LabelSelector;
use crate::store::ChangeKind;

fn resource(group: &str, kind: &str, plural: &str, shape: &'static str) -> Resource {
    Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        subresources: vec![Subresource::Status],
        generation: Generation::Spec,
        unconditional_update: true,
        graceful_deletion: false,
        endpoint: Endpoint::Stored,
        returns_deleted: false,
        selectable: Vec::new(),
        printer: Printer::Default,
        shape: Shape::BuiltIn(shape),
        prepare: None,
        validate: None,
        conversion: None,
        deprecation: None,
        versions: None,
    }
}

fn registry() -> Registry {
    let namespaces = Resource {
        namespaced: false,
        generation: Generation::Never,
        subresources: vec![Subresource::Status, Subresource::Finalize],
        prepare: Some(|new, old| {
            if old.is_none() {
                new["spec"]["finalizers"] = json!(["kubernetes"]);
            }
        }),
        ..resource("", "Namespace", "namespaces", "io.k8s.api.core.v1.Namespace")
    };
    let node_name = Selectable {
        label: "spec.nodeName".into(),
        pointer: "/spec/nodeName".into(),
        missing: String::new(),
        stored_label: None,
    };
    let pods = Resource {
        graceful_deletion: true,
        returns_deleted: true,
        selectable: vec![node_name],
        ..resource("", "Pod", "pods", "io.k8s.api.core.v1.Pod")
    };
    let deployments = Resource {
        unconditional_update: false,
        subresources: vec![
            Subresource::Status,
            Subresource::Scale {
                spec_replicas: ".spec.replicas".into(),
                status_replicas: ".status.replicas".into(),
                selector: Some(".spec.selector".into()),
            },
        ],
        ..resource("apps", "Deployment", "deployments", "io.k8s.api.apps.v1.Deployment")
    };
    let events = resource("", "Event", "events", "io.k8s.api.core.v1.Event");
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let store = Store::new(1000, 100, None);
    let random = clock::Seed::new(1).stream("ids");
    let settings = Settings {
        aggregates_roles: false,
        service_account_admission: false,
        api_services: true,
        services: BTreeMap::new(),
        garbage_collector: false,
        namespace_controllers: false,
        certificate_authority: String::new(),
        field_managers: FieldManagers::Always,
    };
    let registry = Registry::new(
        store,
        vec![namespaces, pods, deployments, events],
        clock,
        random,
        settings,
    );
    let catalog = registry.catalog();
    let entry = catalog.find("", "v1", "namespaces").unwrap();
    for name in ["default", "work"] {
        registry
            .create(
                entry,
                "",
                json!({ "metadata": { "name": name } }),
                &WriteOptions::default(),
            )
            .unwrap();
    }
    registry
}

struct World {
    registry: Registry,
    catalog: Arc<Catalog>,
}

impl World {
    fn new() -> Self {
        let registry = registry();
        let catalog = registry.catalog();
        Self { registry, catalog }
    }

    fn entry(&self, plural: &str) -> &Entry {
        let group = if plural == "deployments" { "apps" } else { "" };
        self.catalog.any_version(group, plural).unwrap()
    }

    fn create(&self, plural: &str, value: Value) -> Result<Value, ApiError> {
        let written = self
            .registry
            .create(self.entry(plural), "work", value, &WriteOptions::default())?;
        Ok(body(&written))
    }

    fn update(&self, plural: &str, part: Part, value: Value) -> Result<Value, ApiError> {
        let key = Key::new("work", metadata::text(&value, "name"));
        let options = WriteOptions::default();
        Ok(body(&self.registry.update(
            self.entry(plural),
            &key,
            part,
            value,
            &options,
        )?))
    }

    fn delete(&self, plural: &str, name: &str, grace: Option<i64>) -> Result<Value, ApiError> {
        let options = DeleteOptions {
            grace_period_seconds: grace,
            ..DeleteOptions::default()
        };
        let namespace = if plural == "namespaces" { "" } else { "work" };
        Ok(body(&self.registry.delete(
            self.entry(plural),
            &Key::new(namespace, name),
            &options,
        )?))
    }

    fn get(&self, plural: &str, name: &str) -> Option<Value> {
        let namespace = if plural == "namespaces" { "" } else { "work" };
        self.registry
            .get(self.entry(plural), &Key::new(namespace, name))
            .ok()
            .map(|object| tree(&object).unwrap())
    }
}

fn body(written: &Written) -> Value {
    match &written.payload {
        Payload::Object(object) => tree(object).unwrap(),
        Payload::Value(value) => value.clone(),
    }
}

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "nodeName": "n", "containers": [{ "name": "c" }] } })
}

#[tokio::test(start_paused = true)]
async fn a_new_object_gets_what_the_server_sets() {
    let world = World::new();
    let mut value = pod("a");
    value["metadata"]["uid"] = "mine".into();
    value["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    value["status"] = json!({ "phase": "Running" });
    let created = world.create("pods", value).unwrap();
    let metadata = &created["metadata"];
    assert_eq!(metadata["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["namespace"], "work");
    assert_ne!(metadata["uid"], "mine");
    assert!(metadata.get("deletionTimestamp").is_none());
    assert_eq!(created["status"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_generated_name_keeps_its_prefix() {
    let world = World::new();
    let created = world
        .create("pods", json!({ "metadata": { "generateName": "web-" } }))
        .unwrap();
    let name = metadata::text(&created, "name");
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
}

#[rstest]
#[case::exists(json!({ "metadata": { "name": "a" } }), 409, "pods \"a\" already exists")]
#[case::revision(json!({ "metadata": { "name": "b", "resourceVersion": "1" } }), 500,
    "resourceVersion should not be set on objects to be created")]
#[case::namespace(json!({ "metadata": { "name": "b", "namespace": "other" } }), 400,
    "the namespace of the provided object does not match the namespace sent on the request")]
#[case::version(json!({ "apiVersion": "v2", "metadata": { "name": "b" } }), 400,
    "the API version in the data (v2) does not match the expected API version (v1)")]
#[case::nameless(json!({ "metadata": {} }), 422,
    "Pod \"\" is invalid: metadata.name: Required value: name or generateName is required")]
#[tokio::test(start_paused = true)]
async fn an_invalid_create_is_rejected(#[case] value: Value, #[case] code: u16, #[case] message: &str) {
    let world = World::new();
    world.create("pods", pod("a")).unwrap();
    let error = world.create("pods", value).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (code, message));
}

#[tokio::test(start_paused = true)]
async fn creating_in_a_missing_namespace_is_not_found() {
    let world = World::new();
    let options = WriteOptions::default();
    let error = world
        .registry
        .create(world.entry("pods"), "nowhere", pod("a"), &options)
        .unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (404, "namespaces \"nowhere\" not found")
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_with_a_stale_revision_conflicts() {
    let world = World::new();
    let first = world
        .create(
            "deployments",
            json!({ "metadata": { "name": "d" }, "spec": { "replicas": 1 } }),
        )
        .unwrap();
    let mut second = first.clone();
    second["spec"]["replicas"] = 2.into();
    assert_eq!(
        world.update("deployments", Part::Main, second).unwrap()["metadata"]["generation"],
        2
    );
    let error = world.update("deployments", Part::Main, first.clone()).unwrap_err();
    assert_eq!(
        error.message,
        "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    let mut unconditional = first;
    unconditional["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let error = world.update("deployments", Part::Main, unconditional).unwrap_err();
    assert_eq!(
        error.message,
        "deployments.apps \"d\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_without_changes_creates_no_revision() {
    let world = World::new();
    let created = world.create("pods", pod("a")).unwrap();
    let revision = world.registry.store().revision();
    let updated = world.update("pods", Part::Main, created.clone()).unwrap();
    assert_eq!(updated, created);
    assert_eq!(world.registry.store().revision(), revision);
}

#[tokio::test(start_paused = true)]
async fn each_endpoint_changes_its_own_part() {
    let world = World::new();
    let mut changed = world.create("pods", pod("a")).unwrap();
    changed["spec"]["nodeName"] = "other".into();
    changed["status"] = json!({ "phase": "Running" });
    let status = world.update("pods", Part::Status, changed.clone()).unwrap();
    assert_eq!(
        (&status["spec"]["nodeName"], &status["status"]["phase"]),
        (&json!("n"), &json!("Running"))
    );
    assert_eq!(status["metadata"]["generation"], 1);
    changed["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    changed["status"] = json!({ "phase": "Failed" });
    let main = world.update("pods", Part::Main, changed).unwrap();
    assert_eq!(
        (&main["spec"]["nodeName"], &main["status"]["phase"]),
        (&json!("other"), &json!("Running"))
    );
    assert_eq!(main["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_keeps_an_object_until_an_update_removes_it() {
    let world = World::new();
    let value = json!({ "metadata": { "name": "d", "finalizers": ["example.com/hold"] } });
    world.create("deployments", value).unwrap();
    let held = world.delete("deployments", "d", None).unwrap();
    assert_eq!(held["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(held["metadata"]["generation"], 2);
    let revision = world.registry.store().revision();
    assert_eq!(world.delete("deployments", "d", None).unwrap(), held);
    assert_eq!(world.registry.store().revision(), revision);

    let mut more = held.clone();
    more["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]);
    let error = world.update("deployments", Part::Main, more).unwrap_err();
    assert!(
        error
            .message
            .contains("metadata.finalizers: Forbidden: no new finalizers can be added"),
        "{error}"
    );

    let mut released = held;
    released["metadata"]["finalizers"] = json!([]);
    world.update("deployments", Part::Main, released).unwrap();
    assert_eq!(world.get("deployments", "d"), None);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_returns_a_status_with_the_uid() {
    let world = World::new();
    let created = world
        .create("deployments", json!({ "metadata": { "name": "d" } }))
        .unwrap();
    let status = world.delete("deployments", "d", None).unwrap();
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["status"], "Success");
    assert_eq!(
        status["details"],
        json!({ "name": "d", "group": "apps", "kind": "deployments", "uid": created["metadata"]["uid"] })
    );
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_gets_its_grace_period_which_can_only_shrink() {
    let world = World::new();
    world.create("pods", pod("a")).unwrap();
    let first = world.delete("pods", "a", Some(60)).unwrap();
    assert_eq!(first["metadata"]["deletionTimestamp"], "2026-01-01T00:01:00Z");
    assert_eq!(first["metadata"]["deletionGracePeriodSeconds"], 60);
    assert_eq!(first["metadata"]["generation"], 2);
    assert_eq!(world.delete("pods", "a", Some(90)).unwrap(), first);
    let shorter = world.delete("pods", "a", Some(10)).unwrap();
    assert_eq!(shorter["metadata"]["deletionTimestamp"], "2026-01-01T00:00:10Z");
    world.delete("pods", "a", Some(0)).unwrap();
    assert_eq!(world.get("pods", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn an_unbound_pod_is_deleted_immediately() {
    let world = World::new();
    world.create("pods", json!({ "metadata": { "name": "a" } })).unwrap();
    world.delete("pods", "a", None).unwrap();
    assert_eq!(world.get("pods", "a"), None);
}

#[rstest]
#[case::uid(
    Some("other"),
    None,
    "the UID in the precondition (other) does not match the UID in record ("
)]
#[case::revision(None, Some("1"), "the ResourceVersion in the precondition (1) does not match")]
#[tokio::test(start_paused = true)]
async fn preconditions_of_a_deletion_are_checked(
    #[case] uid: Option<&str>,
    #[case] revision: Option<&str>,
    #[case] message: &str,
) {
    let world = World::new();
    world.create("pods", pod("a")).unwrap();
    let options = DeleteOptions {
        uid: uid.map(str::to_owned),
        revision: revision.map(str::to_owned),
        ..DeleteOptions::default()
    };
    let error = world
        .registry
        .delete(world.entry("pods"), &Key::new("work", "a"), &options)
        .unwrap_err();
    assert_eq!(error.code, 409);
    assert!(error.message.contains(message), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_removed_after_its_last_object() {
    let world = World::new();
    world.create("pods", pod("slow")).unwrap();
    world
        .create("deployments", json!({ "metadata": { "name": "d" } }))
        .unwrap();
    let namespace = world.delete("namespaces", "work", None).unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(world.get("deployments", "d"), None);
    assert!(world.get("namespaces", "work").is_some());

    let error = world.create("pods", pod("late")).unwrap_err();
    assert_eq!(error.code, 403);
    let details = error.details.unwrap();
    assert_eq!(details["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(details["causes"][0]["field"], "metadata.namespace");

    world.delete("pods", "slow", Some(0)).unwrap();
    assert_eq!(world.get("namespaces", "work"), None);
    assert_eq!(world.delete("namespaces", "default", None).unwrap_err().code, 403);
}

#[tokio::test(start_paused = true)]
async fn a_patch_needs_no_revision() {
    let world = World::new();
    world.create("pods", pod("a")).unwrap();
    let key = Key::new("work", "a");
    let patch = br#"{"metadata":{"labels":{"app":"web"}}}"#;
    let options = WriteOptions::default();
    let entry = world.entry("pods");
    let written = world
        .registry
        .patch(entry, &key, Part::Main, PatchKind::Merge, patch, &options)
        .unwrap();
    assert_eq!(body(&written)["metadata"]["labels"], json!({ "app": "web" }));
    let stale = br#"{"metadata":{"resourceVersion":"5","labels":{"app":"db"}}}"#;
    let error = world
        .registry
        .patch(entry, &key, Part::Main, PatchKind::Merge, stale, &options)
        .unwrap_err();
    assert_eq!(error.reason, "Conflict");
}

#[tokio::test(start_paused = true)]
async fn a_scale_changes_the_replicas_of_its_object() {
    let world = World::new();
    let spec = json!({ "replicas": 1, "selector": { "matchLabels": { "app": "web" } } });
    world
        .create("deployments", json!({ "metadata": { "name": "d" }, "spec": spec }))
        .unwrap();
    let key = Key::new("work", "d");
    let entry = world.entry("deployments");
    let options = WriteOptions::default();
    let written = world
        .registry
        .patch_scale(entry, &key, PatchKind::Merge, br#"{"spec":{"replicas":3}}"#, &options)
        .unwrap();
    let scale = body(&written);
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!(3), &json!("app=web"))
    );
    assert_eq!(world.get("deployments", "d").unwrap()["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing() {
    let world = World::new();
    let options = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let revision = world.registry.store().revision();
    let written = world
        .registry
        .create(world.entry("pods"), "work", pod("a"), &options)
        .unwrap();
    assert_eq!(body(&written)["metadata"]["name"], "a");
    assert_eq!(world.registry.store().revision(), revision);
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_dropped_reported_or_rejected() {
    let world = World::new();
    let mut value = pod("a");
    value["spec"]["colour"] = "red".into();
    let strict = WriteOptions {
        field_validation: FieldValidation::Strict,
        ..WriteOptions::default()
    };
    let error = world
        .registry
        .create(world.entry("pods"), "work", value.clone(), &strict)
        .unwrap_err();
    assert_eq!(error.code, 400);
    assert!(
        error
            .message
            .contains("strict decoding error: unknown field \"spec.colour\""),
        "{error}"
    );
    let written = world
        .registry
        .create(world.entry("pods"), "work", value, &WriteOptions::default())
        .unwrap();
    assert_eq!(written.warnings, ["unknown field \"spec.colour\""]);
    assert!(body(&written)["spec"].get("colour").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_objects_enter_and_leave_its_selection() {
    let world = World::new();
    let entry = world.entry("pods");
    let labels = LabelSelector::parse("app=web").unwrap();
    let options = WatchOptions {
        labels,
        ..WatchOptions::default()
    };
    let mut watch = world.registry.watch(entry, Some("work"), &options).unwrap();
    world.create("pods", pod("a")).unwrap();
    let key = Key::new("work", "a");
    for patch in [
        r#"{"metadata":{"labels":{"app":"web"}}}"#,
        r#"{"metadata":{"labels":{"app":"db"}}}"#,
    ] {
        let options = WriteOptions::default();
        world
            .registry
            .patch(entry, &key, Part::Main, PatchKind::Merge, patch.as_bytes(), &options)
            .unwrap();
    }
    let mut seen = Vec::new();
    while let Some(Event::Object { kind, object, revision }) = watch.next(&world.registry).unwrap() {
        seen.push((kind, object.meta.labels["app"].clone(), revision));
    }
    let newest = world.registry.store().revision();
    let expected = [
        (ChangeKind::Added, "web".to_owned(), newest - 1),
        (ChangeKind::Deleted, "web".to_owned(), newest),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_by_selector() {
    let world = World::new();
    for name in ["a", "b"] {
        let mut value = pod(name);
        value["spec"]["nodeName"] = name.into();
        world.create("pods", value).unwrap();
    }
    let entry = world.entry("pods");
    let fields = FieldSelector::parse("spec.nodeName=a", &entry.resource).unwrap();
    let list = ListOptions {
        fields,
        ..ListOptions::default()
    };
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    world
        .registry
        .delete_collection(entry, Some("work"), &list, &options)
        .unwrap();
    assert_eq!((world.get("pods", "a"), world.get("pods", "b").is_some()), (None, true));
}

#[tokio::test(start_paused = true)]
async fn binding_a_pod_works_once() {
    let world = World::new();
    world.create("pods", json!({ "metadata": { "name": "a" } })).unwrap();
    let key = Key::new("work", "a");
    let binding = json!({ "metadata": { "name": "a" }, "target": { "kind": "Node", "name": "n1" } });
    let options = WriteOptions::default();
    world
        .registry
        .bind(world.entry("pods"), &key, &binding, &options)
        .unwrap();
    assert_eq!(world.get("pods", "a").unwrap()["spec"]["nodeName"], "n1");
    assert_eq!(
        world
            .registry
            .bind(world.entry("pods"), &key, &binding, &options)
            .unwrap_err()
            .code,
        409
    );
}

#[tokio::test(start_paused = true)]
async fn events_expire_an_hour_after_their_last_write() {
    let world = World::new();
    let event = |name: &str| json!({ "metadata": { "name": name }, "count": 1 });
    let minutes = |count: u64| tokio::time::advance(std::time::Duration::from_secs(60 * count));
    world.create("events", event("written-once")).unwrap();
    let mut again = world.create("events", event("written-again")).unwrap();
    minutes(40).await;
    again["count"] = json!(2);
    world.update("events", Part::Main, again).unwrap();
    minutes(19).await;
    world.create("events", event("a")).unwrap();
    assert!(world.get("events", "written-once").is_some());
    minutes(1).await;
    world.create("events", event("b")).unwrap();
    assert!(world.get("events", "written-once").is_none());
    assert!(world.get("events", "written-again").is_some());
    minutes(40).await;
    world.create("events", event("c")).unwrap();
    let left = ["written-again", "a", "b", "c"].map(|name| world.get("events", name).is_some());
    assert_eq!(left, [false, true, true, true]);
}

/// Writes once, while an update is reviewed.
struct Meanwhile(parking_lot::Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl crate::reviewer::Reviewer for Meanwhile {
    fn mutate(&self, _: crate::reviewer::Subject<'_>, _: &mut Vec<String>) -> Result<Option<Value>, ApiError> {
        if let Some(write) = self.0.lock().take() {
            write();
        }
        Ok(None)
    }

    fn validate(&self, _: crate::reviewer::Subject<'_>, _: &mut Vec<String>) -> Result<(), ApiError> {
        Ok(())
    }
}

#[rstest]
#[case::deleted(true, true, false, Err(404))]
#[case::deleted_without_revision(false, true, false, Err(404))]
#[case::changed(true, false, true, Err(409))]
#[case::changed_without_revision(false, false, true, Ok(()))]
#[case::replaced(true, true, true, Err(409))]
#[case::replaced_without_revision(false, true, true, Ok(()))]
fn an_update_meets_what_is_written_while_it_is_reviewed(
    #[case] with_revision: bool,
    #[case] deletes: bool,
    #[case] writes: bool,
    #[case] expected: Result<(), u16>,
) {
    let world = Arc::new(World::new());
    let event = |count: u64| json!({ "metadata": { "name": "e" }, "count": count });
    let mut update = world.create("events", event(1)).unwrap();
    update["count"] = json!(3);
    metadata::of_mut(&mut update).remove("uid");
    if !with_revision {
        metadata::of_mut(&mut update).remove("resourceVersion");
    }
    let other = Arc::clone(&world);
    let write = move || {
        if deletes {
            other.delete("events", "e", None).unwrap();
        }
        match (deletes, writes) {
            (true, true) => other.create("events", event(2)).map(drop).unwrap(),
            (false, true) => other.update("events", Part::Main, event(2)).map(drop).unwrap(),
            (_, false) => {}
        }
    };
    let options = WriteOptions {
        reviewer: Some(Arc::new(Meanwhile(parking_lot::Mutex::new(Some(Box::new(write)))))),
        ..WriteOptions::default()
    };
    let key = Key::new("work", "e");
    let updated = world
        .registry
        .update(world.entry("events"), &key, Part::Main, update, &options);
    assert_eq!(updated.map(drop).map_err(|error| error.code), expected);
    let count = world.get("events", "e").map(|event| event["count"].clone());
    let left = match (expected, writes) {
        (Ok(()), _) => Some(json!(3)),
        (Err(_), true) => Some(json!(2)),
        (Err(_), false) => None,
    };
    assert_eq!(count, left);
}
