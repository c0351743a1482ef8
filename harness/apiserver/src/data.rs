//! The data folder of a server: its objects and their recent history in a log, its keys, and a lock against a second
//! server.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use durable::private_files;

use crate::authority::{Authority, CertificateError};
use crate::keys::{KeptKeys, KeysError, TokenSecret};
use crate::registry::Registry;
use crate::status::ApiError;
use crate::store::log::{self, LoadError, Loaded};

const LOCK: &str = "lock";

/// The reason why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The operating system refuses.
    #[error("cannot use the data folder {folder}: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Another server has the folder.
    #[error("another API server uses the data folder {0}; stop it, or use another folder")]
    InUse(PathBuf),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LoadError),
    /// The keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The stored keys are not valid.
    #[error("the keys in the data folder {folder} are not valid: {source}")]
    Certificates {
        /// The folder.
        folder: PathBuf,
        /// The error.
        source: CertificateError,
    },
    /// An object of the log is not valid for this server.
    #[error("the objects in the data folder {folder} cannot be restored: {source}")]
    Objects {
        /// The folder.
        folder: PathBuf,
        /// The error.
        source: Box<ApiError>,
    },
    /// Files have no place in virtual time.
    #[error("a server on a simulated clock has no data folder")]
    Simulated,
}

/// A data folder that this process has locked.
#[derive(Debug)]
pub(crate) struct Data {
    folder: PathBuf,
    /// The lock, until the server ends.
    _lock: File,
}

/// The content of a data folder.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) data: Data,
    /// Its objects; `None`: it is new.
    pub(crate) loaded: Option<Loaded>,
    /// Its keys; `None`: it has none.
    pub(crate) keys: Option<KeptKeys>,
}

impl Data {
    /// Opens a folder, or creates it.
    ///
    /// # Errors
    /// See [`DataError`]; the objects are unchanged.
    pub(crate) fn open(folder: &Path) -> Result<Opened, DataError> {
        let failed = |source: io::Error| DataError::Folder {
            folder: folder.to_owned(),
            source,
        };
        private_files::restrict_folder(folder).map_err(failed)?;
        let options = OpenOptions::new().create(true).truncate(false).write(true).clone();
        let lock = private_files::open(&folder.join(LOCK), &options).map_err(failed)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => DataError::InUse(folder.to_owned()),
            TryLockError::Error(source) => failed(source),
        })?;
        Ok(Opened {
            loaded: log::load(folder)?,
            keys: KeptKeys::read(folder)?,
            data: Self {
                folder: folder.to_owned(),
                _lock: lock,
            },
        })
    }

    /// The certificate authority and the key of tokens: those of the folder, or new ones, which it gets.
    ///
    /// # Errors
    /// The keys of the folder are not valid, or the new ones cannot be written.
    pub(crate) fn credentials(
        &self,
        keys: Option<KeptKeys>,
        new: TokenSecret,
    ) -> Result<(Authority, TokenSecret), DataError> {
        let failed = |source: CertificateError| DataError::Certificates {
            folder: self.folder.clone(),
            source,
        };
        match keys {
            Some(keys) => {
                let secret = keys.token_secret().clone();
                Ok((Authority::restore(keys).map_err(failed)?, secret))
            }
            None => {
                let authority = Authority::new().and_then(|authority| authority.stored_in(&self.folder, new.clone()));
                Ok((authority.map_err(failed)?, new))
            }
        }
    }

    /// Fills the registry with the objects of the folder, which gets all further changes, and completes interrupted
    /// requests.
    ///
    /// # Errors
    /// An object is not valid, or the folder cannot be written.
    pub(crate) fn restore(&self, loaded: &Loaded, registry: &Registry) -> Result<(), DataError> {
        let failed = |source: ApiError| DataError::Objects {
            folder: self.folder.clone(),
            source: Box::new(source),
        };
        registry.restore(loaded).map_err(failed)?;
        self.write(registry, Some(loaded))?;
        registry.complete_interrupted(loaded).map_err(failed)
    }

    /// Writes the objects of the registry into the new folder, which gets all further changes.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn begin(&self, registry: &Registry) -> Result<(), DataError> {
        self.write(registry, None)
    }

    fn write(&self, registry: &Registry, restored: Option<&Loaded>) -> Result<(), DataError> {
        let written = registry.store().write_to(&self.folder, restored);
        written.map_err(|source| DataError::Folder {
            folder: self.folder.clone(),
            source,
        })
    }
}
