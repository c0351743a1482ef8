//! Reads protobuf tags out of the struct tags in Kubernetes' Go sources.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::run;

/// A struct's fields by their names in JSON; those of inlined structs are among them.
pub type Struct = BTreeMap<String, Tag>;

/// How a field is sent.
pub struct Tag {
    /// The field's number; `2.5` is field 5 of the message in field 2, which JSON inlines.
    pub tag: String,
    /// Whether an explicit zero means something: a pointer, or a field that JSON never omits.
    pub keep: bool,
    /// Whether the field is a pointer.
    pub pointer: bool,
    /// Whether JSON omits the field if it is empty. Structs are never empty.
    pub omits_empty: bool,
    /// Whether JSON omits the field if it is zero, even a struct.
    pub omits_zero: bool,
}

/// Where the modules' sources lie.
pub struct Modules {
    directories: BTreeMap<&'static str, PathBuf>,
}

/// Modules, and the prefix of the names of their types.
const MODULES: [(&str, &str); 4] = [
    ("k8s.io/api", "io.k8s.api."),
    ("k8s.io/apimachinery", "io.k8s.apimachinery."),
    ("k8s.io/apiextensions-apiserver", "io.k8s.apiextensions-apiserver."),
    ("k8s.io/kube-aggregator", "io.k8s.kube-aggregator."),
];

impl Modules {
    /// Fetches the modules in one version.
    pub fn download(scratch: &Path, version: &str) -> Result<Self, Box<dyn Error>> {
        let mut directories = BTreeMap::new();
        for (module, prefix) in MODULES {
            let answer = run(
                "go",
                &["mod", "download", "-json", &format!("{module}@{version}")],
                scratch,
            )?;
            let answer: Value = serde_json::from_str(&answer)?;
            let directory = answer["Dir"]
                .as_str()
                .ok_or_else(|| format!("go names no directory of {module}"))?;
            directories.insert(prefix, PathBuf::from(directory));
        }
        Ok(Self { directories })
    }

    /// The struct behind a type's name, if there is one.
    pub fn find(&self, name: &str) -> Result<Option<Struct>, Box<dyn Error>> {
        let Some((prefix, directory)) = self.directories.iter().find(|(prefix, _)| name.starts_with(**prefix)) else {
            return Ok(None);
        };
        let Some((package, type_)) = name[prefix.len()..].rsplit_once('.') else {
            return Ok(None);
        };
        let package = directory.join(package.replace('.', "/"));
        let mut sources = String::new();
        let mut paths: Vec<PathBuf> = fs::read_dir(&package)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        paths.sort();
        for path in paths {
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if file.starts_with("types") && file.ends_with(".go") {
                sources.push_str(&fs::read_to_string(path)?);
            }
        }
        read_struct(&sources, type_)
    }
}

fn read_struct(sources: &str, type_: &str) -> Result<Option<Struct>, Box<dyn Error>> {
    let Some((_, body)) = sources.split_once(&format!("\ntype {type_} struct {{\n")) else {
        return Ok(None);
    };
    let (body, _) = body
        .split_once("\n}")
        .ok_or_else(|| format!("struct {type_} does not end"))?;
    let mut fields = Struct::new();
    for line in body.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        let Some((declaration, tags)) = line.split_once('`') else {
            continue;
        };
        let (Some(json), Some(protobuf)) = (quoted(tags, "json:"), quoted(tags, "protobuf:")) else {
            continue;
        };
        let number = protobuf
            .split(',')
            .nth(1)
            .ok_or_else(|| format!("{line}: a tag without a number"))?;
        if json == "-" {
            continue;
        }
        if json.starts_with(',') {
            let inlined = declaration.trim();
            let inner = read_struct(sources, inlined)?.ok_or_else(|| format!("{inlined} is not in the package"))?;
            for (name, tag) in inner {
                fields.insert(
                    name,
                    Tag {
                        tag: format!("{number}.{}", tag.tag),
                        ..tag
                    },
                );
            }
        } else {
            let (name, options) = json.split_once(',').unwrap_or((json, ""));
            let pointer = declaration
                .split_whitespace()
                .nth(1)
                .is_some_and(|type_| type_.starts_with('*'));
            let keep = pointer || !options.contains("omit");
            fields.insert(
                name.to_owned(),
                Tag {
                    tag: number.to_owned(),
                    keep,
                    pointer,
                    omits_empty: options.contains("omitempty"),
                    omits_zero: options.contains("omitzero"),
                },
            );
        }
    }
    Ok(Some(fields))
}

/// What stands in the quotes after a key.
fn quoted<'a>(tags: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = tags.split_once(key)?;
    rest.strip_prefix('"')?.split('"').next()
}
