//! Finds the programs of a real control plane.

use std::path::{Path, PathBuf};

/// The programs of a control plane.
pub const PROGRAMS: [&str; 2] = ["etcd", "kube-apiserver"];

/// Errors of finding the programs.
#[derive(Debug, thiserror::Error)]
pub enum MissingPrograms {
    /// The folder in KUBEBUILDER_ASSETS does not have both programs.
    #[error(
        "KUBEBUILDER_ASSETS refers to {}, which does not have both etcd and kube-apiserver: \
         set it to the output of `setup-envtest use -p path`, or unset it",
        assets.display()
    )]
    InAssets {
        /// The folder.
        assets: PathBuf,
    },
    /// None of the searched folders has both programs.
    #[error(
        "etcd and kube-apiserver are neither in KUBEBUILDER_ASSETS nor in PATH nor in the cache: \
         run scripts/kubernetes/build, or run `setup-envtest use -p env` and its output"
    )]
    Anywhere,
}

/// The paths of the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    pub(super) etcd: PathBuf,
    pub(super) server: PathBuf,
}

impl Programs {
    /// Searches the folder in KUBEBUILDER_ASSETS if it is set, else PATH and then the cache of
    /// `scripts/kubernetes/build`.
    ///
    /// # Errors
    /// [`MissingPrograms`], with instructions for installing them.
    pub fn find() -> Result<Self, MissingPrograms> {
        let mut folders: Vec<PathBuf> = Vec::new();
        if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
            let assets = PathBuf::from(assets);
            return Self::inside(&assets).ok_or(MissingPrograms::InAssets { assets });
        }
        if let Some(paths) = std::env::var_os("PATH") {
            folders.extend(std::env::split_paths(&paths));
        }
        folders.extend(cached());
        folders
            .iter()
            .find_map(|folder| Self::inside(folder))
            .ok_or(MissingPrograms::Anywhere)
    }

    fn inside(folder: &Path) -> Option<Self> {
        let [etcd, server] = PROGRAMS.map(|name| folder.join(name));
        (etcd.is_file() && server.is_file()).then_some(Self { etcd, server })
    }

    /// The folder of the API server.
    pub fn folder(&self) -> &Path {
        self.server.parent().unwrap_or(Path::new("."))
    }
}

/// The folders of the cache that may have the programs, newest version first.
fn cached() -> Vec<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = variable("DRYDOCK_CACHE").or_else(|| {
        let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        Some(cache?.join("drydock"))
    });
    let entries = cache.and_then(|cache| std::fs::read_dir(cache).ok());
    let mut versions: Vec<(Vec<u64>, PathBuf)> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("kubernetes-v")?;
            let numbers = version.split(['.', '-']).filter_map(|number| number.parse().ok());
            Some((numbers.collect(), entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
}
