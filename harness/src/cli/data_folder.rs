//! The option `--data`: where a control plane that drydock runs keeps its data.

use std::path::{Path, PathBuf};

use clap::Args;

/// The API server's part of the folder.
const API_SERVER: &str = "apiserver";
/// The cloud's part of the folder.
const CLOUD: &str = "fakecloud";

#[derive(Args, Clone, Debug, Default)]
pub(super) struct DataFolder {
    /// Keeps the data in this folder: the next start with it continues, also if the process was killed
    #[arg(long = "data", value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl DataFolder {
    /// Whether the option is given.
    pub(super) fn is_given(&self) -> bool {
        self.folder.is_some()
    }

    /// The folder of the API server.
    pub(super) fn of_api_server(&self) -> Option<PathBuf> {
        self.part(API_SERVER)
    }

    /// The folder of the cloud's ledger.
    pub(super) fn of_cloud(&self) -> Option<PathBuf> {
        self.part(CLOUD)
    }

    fn part(&self, name: &str) -> Option<PathBuf> {
        let folder = self.folder.as_deref()?;
        // The programs may have other working directories.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Some(folder.join(name))
    }

    /// What Ctrl-C does.
    pub(super) fn describe_end(&self, what: &str) -> String {
        match self.folder.as_deref().map(Path::display) {
            None => format!("Ctrl-C ends {what} and removes the files."),
            Some(folder) => format!("Ctrl-C ends {what}; the next start with --data {folder} continues."),
        }
    }
}
