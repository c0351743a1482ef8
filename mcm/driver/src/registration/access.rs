//! Authorizes drivers to fetch classes of their own kind, and the Secrets that those reference.
//!
//! The error is the same for an object of another kind and for an absent one, so that a driver learns nothing about
//! other kinds.

use mcm_api::MachineClass;
use tonic::Status;

use super::Source;
use crate::{proto, wire};

/// Returns the class to a driver of that kind.
pub(super) fn class(
    source: &dyn Source,
    kind: &str,
    meta: &proto::MachineClassMeta,
) -> Result<proto::MachineClass, Status> {
    let class = source
        .class(&meta.namespace, &meta.name)
        .filter(|class| class.provider.as_deref() == Some(kind));
    let Some(class) = class else {
        return Err(Status::permission_denied(format!(
            "there is no machine class {}/{} whose provider is {kind:?}",
            meta.namespace, meta.name
        )));
    };
    encode_class(&class)
}

/// The class as a response.
pub(super) fn encode_class(class: &MachineClass) -> Result<proto::MachineClass, Status> {
    let class = wire::to_json("class", class).map_err(wire::encode_error)?;
    Ok(proto::MachineClass { class })
}

/// Returns the Secret to a driver of that kind.
pub(super) fn secret(source: &dyn Source, kind: &str, meta: &proto::SecretMeta) -> Result<proto::Secret, Status> {
    let allowed = source.kinds_of_secret(&meta.namespace, &meta.name).contains(kind);
    match source.secret(&meta.namespace, &meta.name).filter(|_| allowed) {
        Some((data, resource_version)) => Ok(proto::Secret {
            data: wire::encode_secret(data),
            resource_version,
        }),
        None => Err(Status::permission_denied(format!(
            "no machine class whose provider is {kind:?} references a Secret {}/{}",
            meta.namespace, meta.name
        ))),
    }
}
