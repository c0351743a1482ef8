//! Manifests of a folder.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use apiserver::json;
use serde_json::Value;

/// A document with a kind and a name.
pub struct Manifest {
    /// The file, relative to the folder.
    pub file: String,
    pub version: String,
    pub kind: String,
    /// Empty if the server generates it.
    pub name: String,
    /// `default` if the manifest names none.
    pub namespace: String,
    pub object: Value,
}

/// What a folder contains.
#[derive(Default)]
pub struct Loaded {
    pub manifests: Vec<Manifest>,
    /// The number of files that cannot be read.
    pub unreadable: usize,
}

/// Reads all manifests of a folder, each content once.
pub fn folder(folder: &Path) -> io::Result<Loaded> {
    let mut loaded = Loaded::default();
    let mut seen = HashSet::new();
    for path in files(folder)? {
        let Ok(text) = std::fs::read_to_string(&path) else {
            loaded.unreadable += 1;
            continue;
        };
        let documents = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => json::parse(text.as_bytes()).map(|document| vec![document]).ok(),
            _ => json::parse_yaml_documents(&text).ok(),
        };
        let Some(documents) = documents else {
            loaded.unreadable += 1;
            continue;
        };
        let file = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        for document in documents.into_iter().flat_map(items) {
            if let Some(manifest) = manifest(&file, document)
                && seen.insert(manifest.object.to_string())
            {
                loaded.manifests.push(manifest);
            }
        }
    }
    Ok(loaded)
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The items of a list, or the document itself.
fn items(document: Value) -> Vec<Value> {
    match document.get("items").and_then(Value::as_array) {
        Some(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
        _ => vec![document],
    }
}

fn manifest(file: &str, object: Value) -> Option<Manifest> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let name = text("/metadata/name");
    if name.is_none() {
        text("/metadata/generateName")?;
    }
    Some(Manifest {
        file: file.to_owned(),
        version: text("/apiVersion")?,
        kind: text("/kind")?,
        name: name.unwrap_or_default(),
        namespace: text("/metadata/namespace")
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or_else(|| "default".to_owned()),
        object,
    })
}
