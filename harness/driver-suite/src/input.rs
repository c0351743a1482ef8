//! The machine class and the Secrets of a run, read from YAML files.

use std::path::{Path, PathBuf};

use mcm_api::MachineClass;
use request_files::{Data, FileError, Source, class, merged};

/// The namespace of a class whose file names none.
const NAMESPACE: &str = "default";

/// The objects that every call contains.
#[derive(Clone)]
pub struct Inputs {
    /// The machine class; its `provider` is not empty.
    pub class: MachineClass,
    /// The data of the Secrets that it names.
    pub secret: Data,
}

/// Prints only the secret's keys.
impl std::fmt::Debug for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs")
            .field("class", &self.class.metadata.name)
            .field("secret", &self.secret.keys())
            .finish()
    }
}

impl Inputs {
    /// Reads the files of a class and of the Secrets that it names.
    ///
    /// # Errors
    /// A file cannot be read, or is not an object of its kind with the required fields.
    pub fn read(class_file: &Path, secret_files: &[PathBuf]) -> Result<Self, FileError> {
        let secrets = secret_files
            .iter()
            .map(|file| Source::read("--secret", &file.to_string_lossy()));
        let mut class = class(Some(&Source::read("--class", &class_file.to_string_lossy())?))?;
        class.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
        let secret = merged(&class, &secrets.collect::<Result<Vec<_>, _>>()?)?;
        Ok(Self { class, secret })
    }
}
