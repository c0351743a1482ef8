//! Which registrations are accepted, and which process receives an operation. Pure.
//!
//! Several processes may register for one kind if they present the same client identity. The process that has been
//! registered for the longest time receives all operations, so that two processes never work for one machine at the same
//! time as long as both keep their streams; the others wait for its end.

use std::collections::BTreeSet;
use std::fmt;

use mcm_api::MachineClass;
use mcm_api::cloud::{Code, DriverError};

use super::API_VERSION;
use crate::call::Call;
use crate::incoming::ClientIdentity;
use crate::proto;

/// A process that registers or has registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    /// The `provider` of the classes that it serves.
    pub(super) kind: String,
    /// The human-readable name.
    pub(super) name: String,
    /// The provider-specific kinds of classes that it converts.
    pub(super) class_kinds: BTreeSet<String>,
    /// From its client certificate; `None` without TLS.
    pub(super) identity: Option<ClientIdentity>,
}

/// Why a registration is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Rejection {
    #[error("the registration has no kind: set it to the provider of the machine classes that the driver serves")]
    NoKind,
    #[error("the driver uses {0:?}, and this controller {API_VERSION}: use a driver for that version")]
    Version(String),
    #[error(
        "the kind {kind:?} already has the driver {registered}, whose client certificate has another subject or other \
         DNS names: end that one first, use a certificate with the same subject and DNS names (without either: with the \
         same key), or register for another kind"
    )]
    OtherIdentity { kind: String, registered: String },
    #[error(
        "the driver {registered} of {kind:?} already converts classes of the kind {class_kind}: \
         remove it from class_kinds of one of the two"
    )]
    ClassKindTaken {
        kind: String,
        registered: String,
        class_kind: String,
    },
}

/// Decides about a registration, given the registered processes in the order of their registration.
pub(super) fn admit<'a>(
    registered: impl Iterator<Item = &'a Process>,
    registration: proto::Registration,
    identity: Option<ClientIdentity>,
) -> Result<Process, Rejection> {
    let proto::Registration {
        kind,
        api_version,
        name,
        class_kinds,
    } = registration;
    if kind.is_empty() {
        return Err(Rejection::NoKind);
    }
    if api_version != API_VERSION {
        return Err(Rejection::Version(api_version));
    }
    let class_kinds = BTreeSet::from_iter(class_kinds);
    for other in registered {
        let registered = other.name.clone();
        if other.kind == kind {
            if other.identity != identity {
                return Err(Rejection::OtherIdentity { kind, registered });
            }
        } else if let Some(class_kind) = other.class_kinds.intersection(&class_kinds).next() {
            return Err(Rejection::ClassKindTaken {
                kind: other.kind.clone(),
                registered,
                class_kind: class_kind.clone(),
            });
        }
    }
    Ok(Process {
        kind,
        name,
        class_kinds,
        identity,
    })
}

/// Which drivers a call concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// The driver of this kind.
    Kind(String),
    /// The driver that converts classes of this provider-specific kind.
    ClassKind(String),
}

impl Destination {
    /// The destination of a call; `None`: the drivers of all kinds, as volumes have no class, and each driver returns the
    /// names of its own volumes. A migration goes to the provider of its class if that is known from an earlier attempt.
    pub(super) fn of(call: &Call) -> Result<Option<Self>, DriverError> {
        if let Some(class) = call.class() {
            let kind = provider(class).ok_or_else(|| {
                let name = class.metadata.name.as_deref().unwrap_or_default();
                DriverError::new(
                    Code::InvalidArgument,
                    format!(
                        "the machine class {name} has no provider: set it to the kind of the driver that serves it"
                    ),
                )
            })?;
            return Ok(Some(Self::Kind(kind.to_owned())));
        }
        let Call::GenerateClass(provider_class, class) = call else {
            return Ok(None);
        };
        Ok(Some(match provider(class) {
            Some(kind) => Self::Kind(kind.to_owned()),
            None => Self::ClassKind(provider_class["kind"].as_str().unwrap_or_default().to_owned()),
        }))
    }

    /// Whether a process may receive the call.
    pub(super) fn includes(&self, process: &Process) -> bool {
        match self {
            Self::Kind(kind) => process.kind == *kind,
            Self::ClassKind(class_kind) => process.class_kinds.contains(class_kind),
        }
    }

    /// The error if no registered process is included. `kinds` are all registered kinds.
    pub(super) fn absent(&self, kinds: &BTreeSet<&str>) -> DriverError {
        let mut others = kinds.iter().copied().collect::<Vec<_>>().join(", ");
        if others.is_empty() {
            others.push_str("none");
        }
        let (code, text) = match self {
            Self::ClassKind(class_kind) => (
                Code::Unimplemented,
                format!(
                    "no registered driver converts classes of the kind {class_kind} (registered: {others}): start one \
                     that names it in class_kinds, or create the MachineClass by hand"
                ),
            ),
            Self::Kind(_) => (
                Code::Unavailable,
                format!(
                    "no driver has registered for {self} (registered: {others}): \
                     start it, or correct the provider of the machine class"
                ),
            ),
        };
        DriverError::new(code, text)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "the provider {kind:?}"),
            Self::ClassKind(kind) => write!(f, "classes of the kind {kind:?}"),
        }
    }
}

fn provider(class: &MachineClass) -> Option<&str> {
    class.provider.as_deref().filter(|provider| !provider.is_empty())
}

/// Checks the class that a driver of `kind` generated from `provider_class`. It may create classes of its own kind only,
/// and only with the Secrets of the provider class: otherwise it could obtain any Secret of the namespace.
pub(super) fn check_generated(
    kind: &str,
    provider_class: &serde_json::Value,
    class: &MachineClass,
) -> Result<(), DriverError> {
    let invalid = |text: String| {
        Err(DriverError::new(
            Code::InvalidArgument,
            format!("the driver of {kind:?} generated a machine class {text}"),
        ))
    };
    if provider(class) != Some(kind) {
        return invalid(format!(
            "with provider {:?}: it must set its own kind",
            class.provider.as_deref().unwrap_or_default()
        ));
    }
    let namespace = class.metadata.namespace.as_deref().unwrap_or_default();
    let references = [&class.secret_ref, &class.credentials_secret_ref];
    for reference in references.into_iter().flatten() {
        let name = reference.name.as_deref().unwrap_or_default();
        let of = reference.namespace.as_deref().unwrap_or(namespace);
        if !name.is_empty() && !refers_to(provider_class, namespace, (of, name)) {
            return invalid(format!(
                "with the Secret {of}/{name}, to which the converted class does not refer"
            ));
        }
    }
    Ok(())
}

/// Whether a provider-specific class contains a reference to the Secret, given as namespace and name. A reference
/// without a namespace means `default`.
fn refers_to(value: &serde_json::Value, default: &str, secret: (&str, &str)) -> bool {
    let Some(object) = value.as_object() else {
        let items = value.as_array().into_iter().flatten();
        return items.into_iter().any(|item| refers_to(item, default, secret));
    };
    let field = |name: &str| object.get(name).and_then(|value| value.as_str());
    if field("name") == Some(secret.1) && field("namespace").unwrap_or(default) == secret.0 {
        return true;
    }
    let fields = object.iter().filter(|(name, _)| *name != "metadata");
    fields.into_iter().any(|(_, field)| refers_to(field, default, secret))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::SecretReference;
    use mcm_api::Machine;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::MachineRequest;

    fn identity(name: &str) -> Option<ClientIdentity> {
        Some(ClientIdentity::named(name))
    }

    fn process(kind: &str, name: &str, identity: Option<ClientIdentity>) -> Process {
        Process {
            kind: kind.to_owned(),
            name: name.to_owned(),
            identity,
            ..Process::default()
        }
    }

    fn registration(kind: &str) -> proto::Registration {
        proto::Registration {
            kind: kind.to_owned(),
            api_version: API_VERSION.to_owned(),
            name: "new".to_owned(),
            class_kinds: Vec::new(),
        }
    }

    #[rstest]
    #[case::another_kind("blue", identity("other"), true)]
    #[case::the_same_identity("red", identity("red"), true)]
    #[case::another_identity("red", identity("other"), false)]
    #[case::no_identity("red", None, false)]
    fn a_kind_belongs_to_one_identity(
        #[case] kind: &str,
        #[case] identity_of_new: Option<ClientIdentity>,
        #[case] admitted: bool,
    ) {
        let registered = [process("red", "first", identity("red"))];
        let result = admit(registered.iter(), registration(kind), identity_of_new);
        assert_eq!(result.is_ok(), admitted, "{result:?}");
        if let Err(rejection) = result {
            let text = rejection.to_string();
            assert!(text.contains("first") && text.contains("end that one first"), "{text}");
        }
    }

    #[test]
    fn without_tls_processes_share_a_kind() {
        let registered = [process("red", "first", None)];
        let admitted = admit(registered.iter(), registration("red"), None);
        assert_eq!(admitted, Ok(process("red", "new", None)));
    }

    #[rstest]
    #[case::no_kind(proto::Registration { kind: String::new(), ..registration("red") }, "provider")]
    #[case::another_version(proto::Registration { api_version: "v0".into(), ..registration("red") }, API_VERSION)]
    fn an_invalid_registration_is_rejected_with_the_fix(
        #[case] registration: proto::Registration,
        #[case] expected: &str,
    ) {
        let text = admit(std::iter::empty(), registration, None).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }

    #[rstest]
    #[case::of_the_same_kind("red", true)]
    #[case::of_another_kind("blue", false)]
    fn a_class_kind_belongs_to_one_kind(#[case] kind: &str, #[case] admitted: bool) {
        let converting = |kind| proto::Registration {
            class_kinds: vec!["OldClass".to_owned()],
            ..registration(kind)
        };
        let first = admit(std::iter::empty(), converting("red"), None).unwrap();
        let second = admit([first].iter(), converting(kind), None);
        assert_eq!(second.is_ok(), admitted, "{second:?}");
    }

    fn class(provider: Option<&str>) -> MachineClass {
        MachineClass {
            provider: provider.map(str::to_owned),
            ..MachineClass::default()
        }
    }

    fn request(provider: Option<&str>) -> Box<MachineRequest> {
        Box::new(MachineRequest {
            machine: Machine::default(),
            class: class(provider),
            secret: Default::default(),
        })
    }

    fn migration(provider: Option<&str>) -> Call {
        Call::GenerateClass(json!({ "kind": "OldClass" }), Box::new(class(provider)))
    }

    #[rstest]
    #[case::of_a_machine(Call::Create(request(Some("red"))), Ok(Some(Destination::Kind("red".into()))))]
    #[case::of_a_list(
        Call::List(Box::new(class(Some("red"))), Default::default()),
        Ok(Some(Destination::Kind("red".into())))
    )]
    #[case::without_a_provider(Call::Delete(request(None)), Err(Code::InvalidArgument))]
    #[case::with_an_empty_provider(Call::Delete(request(Some(""))), Err(Code::InvalidArgument))]
    #[case::of_volumes(Call::VolumeIds(Vec::new()), Ok(None))]
    #[case::of_a_new_class(migration(None), Ok(Some(Destination::ClassKind("OldClass".into()))))]
    #[case::of_a_known_class(migration(Some("red")), Ok(Some(Destination::Kind("red".into()))))]
    fn the_class_determines_the_destination(#[case] call: Call, #[case] expected: Result<Option<Destination>, Code>) {
        assert_eq!(Destination::of(&call).map_err(|error| error.code), expected);
    }

    #[test]
    fn a_destination_includes_processes_by_kind_or_class_kind() {
        let red = Process {
            class_kinds: ["OldClass".to_owned()].into(),
            ..process("red", "first", None)
        };
        let blue = process("blue", "second", None);
        let included = |destination: Destination| [destination.includes(&red), destination.includes(&blue)];
        assert_eq!(included(Destination::Kind("blue".into())), [false, true]);
        assert_eq!(included(Destination::ClassKind("OldClass".into())), [true, false]);
    }

    #[rstest]
    #[case::its_own(Some("red"), true)]
    #[case::another(Some("blue"), false)]
    #[case::none(None, false)]
    fn a_driver_generates_classes_of_its_own_kind(#[case] provider: Option<&str>, #[case] accepted: bool) {
        assert_eq!(check_generated("red", &json!({}), &class(provider)).is_ok(), accepted);
    }

    #[rstest]
    #[case::of_the_class(Some("garden"), "cloud", true)]
    #[case::without_a_namespace(None, "cloud", true)]
    #[case::in_a_list(None, "other", true)]
    #[case::of_another_namespace(Some("seed"), "cloud", false)]
    #[case::of_another_name(None, "token", false)]
    #[case::of_the_name_of_the_class(None, "old", false)]
    fn a_generated_class_has_only_the_secrets_of_the_converted_class(
        #[case] namespace: Option<&str>,
        #[case] name: &str,
        #[case] accepted: bool,
    ) {
        let old = json!({
            "metadata": { "name": "old", "namespace": "garden" },
            "spec": { "secretRef": { "name": "cloud", "namespace": "garden" }, "more": [{ "name": "other" }] },
        });
        let reference = SecretReference {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
        };
        for as_credentials in [false, true] {
            let mut filled = class(Some("red"));
            filled.metadata.namespace = Some("garden".to_owned());
            let field = match as_credentials {
                true => &mut filled.credentials_secret_ref,
                false => &mut filled.secret_ref,
            };
            *field = Some(reference.clone());
            assert_eq!(check_generated("red", &old, &filled).is_ok(), accepted);
        }
    }
}
