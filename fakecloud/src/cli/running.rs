//! The cloud of the `drydock up` that runs in a folder.

use std::path::{Path, PathBuf};

use anyhow::Context;
use durable::private_files;
use mcm_driver::tls::{Tls, TlsFiles};
use serde::Deserialize;

/// The file that `drydock up` writes in its folder, and removes at its end.
const FILE: &str = ".drydock/up.json";

/// What the commands need of the file.
#[derive(Debug, Deserialize)]
struct Announced {
    world: World,
}

#[derive(Debug, Deserialize)]
struct World {
    cloud: String,
    tls: Option<TlsPaths>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TlsPaths {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
    server_name: Option<String>,
}

/// The control address of the cloud in `folder`, with the files for mutual TLS; `None`: there is none.
///
/// # Errors
/// If the file of `drydock up` cannot be read.
pub(super) fn find(folder: &Path) -> anyhow::Result<Option<(String, Option<Tls>)>> {
    let path = folder.join(FILE);
    let unusable = || format!("cannot read {}; remove it, or say --cloud ADDRESS", path.display());
    let Some(text) = private_files::read(&path).with_context(unusable)? else {
        return Ok(None);
    };
    let Announced { world } = serde_json::from_slice(&text).with_context(unusable)?;
    let tls = world.tls.map(|tls| Tls {
        files: TlsFiles {
            ca: tls.ca,
            cert: tls.cert,
            key: tls.key,
        },
        server_name: tls.server_name,
    });
    Ok(Some((world.cloud, tls)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cloud_of_a_running_world_is_found_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find(folder.path()).unwrap(), None);
        std::fs::create_dir(folder.path().join(".drydock")).unwrap();
        let write = |text: &str| std::fs::write(folder.path().join(FILE), text).unwrap();
        write(r#"{"process": 1, "runFolder": "/tmp/a", "world": {"cloud": "grpc://127.0.0.1:1", "tls": null}}"#);
        assert_eq!(
            find(folder.path()).unwrap(),
            Some(("grpc://127.0.0.1:1".to_owned(), None))
        );
        write("{");
        let error = find(folder.path()).unwrap_err().to_string();
        assert!(error.contains("up.json; remove it, or say --cloud"), "{error}");
    }
}
