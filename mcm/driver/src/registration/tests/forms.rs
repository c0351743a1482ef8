//! Every call has the same result over the registration form and over the plain form.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::call::{Call, Handler, Outcome, SecretData};
use crate::client::GrpcDriver;
use crate::server::DriverService;

/// A request with the Secret's data as they are; only calls of a creation have filled in user data.
fn plain() -> Box<MachineRequest> {
    let mut request = request("red");
    request.secret = Garden.secret("garden", "red-secret").unwrap().0;
    Box::new(request)
}

fn filled_in() -> Box<MachineRequest> {
    let mut request = plain();
    request.secret.insert("userData".to_owned(), bytes("filled in"));
    request
}

fn migration(becomes: &str, class: MachineClass) -> Call {
    let old = json!({ "kind": "OldClass", "spec": { "becomes": becomes } });
    Call::GenerateClass(old, Box::new(class))
}

#[rstest]
#[case::create(Call::Create(filled_in()))]
#[case::initialize(Call::Initialize(filled_in()))]
#[case::status(Call::Status(filled_in()))]
#[case::delete(Call::Delete(plain()))]
#[case::update(Call::Update(plain(), Some("{\"size\":1}".to_owned())))]
#[case::update_of_an_unknown_spec(Call::Update(plain(), None))]
#[case::list(Call::List(Box::new(class_of("red")), SecretData(plain().secret)))]
#[case::volumes(Call::VolumeIds(vec![PersistentVolumeSpec::default(); 2]))]
#[case::migration(migration("red", MachineClass::default()))]
#[tokio::test(start_paused = true)]
async fn a_call_has_the_same_result_over_both_forms(#[case] call: Call) {
    let (dialled, registered) = (Echo::default(), Echo::default());
    let over_plain_form = GrpcDriver::new(DriverService::new(dialled.clone()).into_server());
    let registry = registry();
    let registrant = Registrant::new(registered.clone(), "red", "first").converting(["OldClass"]);
    let story = registry.handle(call.clone());
    let result = with_registrant(&registry, registrant, story).await;
    assert_eq!(result, over_plain_form.handle(call).await);
    assert_eq!(*registered.updated.lock(), *dialled.updated.lock());
    assert_eq!(*registered.deleted.lock(), *dialled.deleted.lock());
}

#[tokio::test(start_paused = true)]
async fn a_driver_fetches_the_class_in_the_version_of_the_operation() {
    let registry = registry();
    let driver = Echo::default();
    let updated = Arc::clone(&driver.updated);
    let mut request = request("red");
    // The cache of the controller has version 7, which is not the one that the controller decided with.
    request.class.metadata.resource_version = Some("6".to_owned());
    request.class.provider_spec = json!({ "size": 2 });
    with_driver(&registry, "red", driver, registry.update_machine(request, None))
        .await
        .unwrap();
    assert_eq!(*updated.lock(), ["None to {\"size\":2} of version Some(\"6\")"]);
}

#[tokio::test(start_paused = true)]
async fn a_migration_reaches_the_driver_that_converts_the_kind_and_yields_a_class_of_its_own_kind() {
    let registry = registry();
    let blue = Registrant::new(Echo::default(), "blue", "converts nothing");
    let red = Registrant::new(Echo::default(), "red", "converts").converting(["OldClass"]);
    let story = async {
        let own = registry.handle(migration("red", MachineClass::default())).await;
        let Ok(Outcome::Class(class)) = own else {
            panic!("{own:?}")
        };
        assert_eq!(class.provider.as_deref(), Some("red"));
        let foreign = registry.handle(migration("blue", MachineClass::default())).await;
        let error = foreign.unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("\"blue\""), "{error}");
    };
    with_registrant(&registry, blue, with_registrant(&registry, red, story)).await;

    let blue = Registrant::new(Echo::default(), "blue", "converts nothing");
    let alone = registry.handle(migration("blue", MachineClass::default()));
    let error = with_registrant(&registry, blue, alone).await.unwrap_err();
    assert_eq!(error.code, Code::Unimplemented);
    assert!(
        error.message.contains("OldClass") && error.message.contains("class_kinds"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_operation_of_an_unknown_type_is_unimplemented() {
    let operation = proto::Operation {
        r#type: 99,
        ..proto::Operation::default()
    };
    let Err(error) = super::super::operation::decode(operation) else {
        panic!("it was decoded")
    };
    assert_eq!(error.code, Code::Unimplemented);
}
