//! What a driver may fetch: classes of its own kind, and the Secrets that those name.
//!
//! A refusal says the same whether the thing is somebody else's or not there: a driver learns nothing of others.

use tonic::Status;

use super::Source;
use crate::{proto, wire};

/// The class, for a driver of that kind.
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
    let class = wire::to_json("class", &class).map_err(wire::encode_error)?;
    Ok(proto::MachineClass { class })
}

/// The Secret, for a driver of that kind.
pub(super) fn secret(source: &dyn Source, kind: &str, meta: &proto::SecretMeta) -> Result<proto::Secret, Status> {
    let may = source.kinds_of_secret(&meta.namespace, &meta.name).contains(kind);
    match source.secret(&meta.namespace, &meta.name).filter(|_| may) {
        Some((data, resource_version)) => Ok(proto::Secret {
            data: wire::encode_secret(data),
            resource_version,
        }),
        None => Err(Status::permission_denied(format!(
            "no machine class whose provider is {kind:?} names a Secret {}/{}",
            meta.namespace, meta.name
        ))),
    }
}
