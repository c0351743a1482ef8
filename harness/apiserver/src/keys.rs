//! The keys that a server with a data folder keeps: its certificate authority, the key of its tokens, and its clients'
//! certificates, so that kubeconfigs and tokens stay valid when it is restarted.

use std::io;
use std::path::{Path, PathBuf};

use clock::Stream;
use durable::lines::{LineError, lines, write_line};
use durable::private_files;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;

const FILE: &str = "keys";
const NEW_FILE: &str = "keys.new";
/// The version of the file.
const VERSION: u32 = 1;

/// A certificate and its key in PEM format.
#[derive(Clone, Serialize, Deserialize)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The private key; a secret.
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// The certificate of a client.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) identity: Identity,
    #[serde(flatten)]
    pub(crate) issued: Issued,
}

/// The secret key of tokens.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TokenSecret(pub(crate) [u8; 32]);

impl TokenSecret {
    pub(crate) fn new(random: &mut Stream) -> Self {
        let mut secret = [0; 32];
        for chunk in secret.chunks_mut(8) {
            chunk.copy_from_slice(&random.bits().to_le_bytes());
        }
        Self(secret)
    }
}

/// All keys of a server.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Keys {
    version: u32,
    authority: Issued,
    token_secret: TokenSecret,
    clients: Vec<Client>,
}

/// A failure to read or write the keys.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the keys in {path}: {reason}")]
pub struct KeysError {
    path: PathBuf,
    reason: String,
}

/// The keys in a folder, which are written again with each new client.
pub(crate) struct KeptKeys {
    folder: PathBuf,
    keys: Keys,
}

impl std::fmt::Debug for KeptKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptKeys")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl KeptKeys {
    /// Writes new keys into a folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(folder: &Path, authority: Issued, token_secret: TokenSecret) -> Result<Self, KeysError> {
        let keys = Keys {
            version: VERSION,
            authority,
            token_secret,
            clients: Vec::new(),
        };
        let kept = Self {
            folder: folder.to_owned(),
            keys,
        };
        kept.write()?;
        Ok(kept)
    }

    /// Reads the keys of a folder; `None`: it has none.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or comes from a later version.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, KeysError> {
        let path = folder.join(FILE);
        let failed = |reason: String| KeysError {
            path: path.clone(),
            reason,
        };
        let text = private_files::read(&path).map_err(|error| failed(error.to_string()))?;
        let Some(text) = text else { return Ok(None) };
        let hint =
            "restore the file from a copy, or remove it: then older kubeconfigs and tokens are not valid any more";
        let line = lines(&text).next();
        let keys = line.map_or(Err(LineError::NoEnd), |line| line.decode::<Keys>());
        let keys = keys.map_err(|error| failed(format!("{error}; {hint}")))?;
        if keys.version != VERSION {
            return Err(failed(format!(
                "they have the format {}, and this program reads {VERSION}: use the program that wrote them",
                keys.version
            )));
        }
        let folder = folder.to_owned();
        Ok(Some(Self { folder, keys }))
    }

    pub(crate) fn authority(&self) -> &Issued {
        &self.keys.authority
    }

    pub(crate) fn token_secret(&self) -> &TokenSecret {
        &self.keys.token_secret
    }

    pub(crate) fn clients(&self) -> &[Client] {
        &self.keys.clients
    }

    /// The certificate of a client.
    pub(crate) fn client(&self, identity: &Identity) -> Option<&Issued> {
        let clients = self.keys.clients.iter();
        let mut found = clients.filter(|client| client.identity == *identity);
        found.next().map(|client| &client.issued)
    }

    /// Adds a client.
    ///
    /// # Errors
    /// The file cannot be written; then nothing changed.
    pub(crate) fn add(&mut self, client: Client) -> Result<(), KeysError> {
        self.keys.clients.push(client);
        let written = self.write();
        if written.is_err() {
            self.keys.clients.pop();
        }
        written
    }

    fn write(&self) -> Result<(), KeysError> {
        let path = self.folder.join(FILE);
        let new = self.folder.join(NEW_FILE);
        let mut text = Vec::new();
        let encoded = write_line(&mut text, &self.keys).map_err(io::Error::from);
        let written = encoded.and_then(|()| {
            private_files::replace(&new, &text)?.sync_all()?;
            std::fs::rename(&new, &path)
        });
        written.map_err(|error| KeysError {
            path,
            reason: error.to_string(),
        })
    }
}
