//! The MachineClass of a file.

use mcm_api::{MachineClass, keys};

use crate::{Expected, FileError, Source, document, field, typed};

const CLASS: Expected = Expected {
    flag: "--class",
    api_version: "machine.sapcloud.io/v1alpha1",
    kind: keys::MACHINE_CLASS,
};

/// The class of a file; it has a provider and a provider spec.
///
/// # Errors
/// There is no file, or it is not such a class.
pub fn class(source: Option<&Source>) -> Result<MachineClass, FileError> {
    let source = source.ok_or_else(|| FileError::Missing {
        flag: CLASS.flag,
        fix: "give the file of the MachineClass".to_owned(),
    })?;
    let class: MachineClass = typed(document(source, CLASS)?, source, CLASS)?;
    if class.provider.as_deref().is_none_or(str::is_empty) {
        let fix = "it is missing: name the provider of the driver, for example provider: fakecloud";
        return Err(field(source, CLASS, "provider", fix));
    }
    if class.provider_spec.is_null() {
        let fix = "it is missing: describe the VM as the driver documents it";
        return Err(field(source, CLASS, "providerSpec", fix));
    }
    Ok(class)
}
