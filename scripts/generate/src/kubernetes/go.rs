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
    /// The declared type.
    type_: String,
    /// Whether an explicit zero means something: a pointer, or a field that JSON never omits.
    pub keep: bool,
    /// Whether the field is a pointer.
    pub pointer: bool,
    /// Whether JSON omits the field if it is empty. Structs are never empty.
    pub omits_empty: bool,
    /// Whether JSON omits the field if it is zero, even a struct.
    pub omits_zero: bool,
    /// The values that the field, or each item of it, can have; empty if its type is no enumeration.
    pub values: Vec<String>,
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
        let sources = sources(&directory.join(package.replace('.', "/")))?;
        let Some(mut fields) = read_struct(&sources, type_)? else {
            return Ok(None);
        };
        for field in fields.values_mut() {
            field.values = self.values(&sources, &field.type_)?;
        }
        Ok(Some(fields))
    }

    /// The values of a type of a package with these sources, sorted; empty if it is no enumeration.
    fn values(&self, own: &str, type_: &str) -> Result<Vec<String>, Box<dyn Error>> {
        let name = type_.trim_start_matches(['*', '[', ']']);
        match name.split_once('.') {
            None => self.enumeration(own, name),
            Some((alias, name)) => match self.imported(own, alias)? {
                Some(sources) => self.enumeration(&sources, name),
                None => Ok(Vec::new()),
            },
        }
    }

    /// The sources of the package that others import under a name; `None` if it is not in the modules.
    fn imported(&self, importing: &str, alias: &str) -> Result<Option<String>, Box<dyn Error>> {
        let import = importing.lines().find_map(|line| {
            let (before, path) = line.trim().trim_start_matches("import ").split_once('"')?;
            let path = path.split('"').next()?;
            let is_it = before.trim() == alias || before.trim().is_empty() && path.rsplit('/').next() == Some(alias);
            is_it.then_some(path)
        });
        let found = import.and_then(|import| {
            MODULES.iter().find_map(|(module, prefix)| {
                let package = import.strip_prefix(module)?.trim_start_matches('/');
                Some(self.directories.get(prefix)?.join(package))
            })
        });
        found
            .filter(|package| package.is_dir())
            .map(|package| sources(&package))
            .transpose()
    }

    /// The constants of a text type that is marked as an enumeration, sorted; else nothing.
    fn enumeration(&self, sources: &str, name: &str) -> Result<Vec<String>, Box<dyn Error>> {
        let Some((before, _)) = sources.split_once(&format!("\ntype {name} string\n")) else {
            return Ok(Vec::new());
        };
        let mut comment = before.lines().rev().take_while(|line| line.starts_with("//"));
        if !comment.any(|line| line.trim() == "// +enum") {
            return Ok(Vec::new());
        }
        let mut values = Vec::new();
        for (declaration, value) in sources.lines().filter_map(|line| line.trim().split_once('=')) {
            let type_ = declaration.trim_start_matches("const ").split_whitespace().nth(1);
            let converted = value.trim().strip_prefix(&format!("{name}("));
            let text = match (type_, converted) {
                (Some(type_), _) if type_ == name => quotation(value),
                (None, Some(converted)) => match converted.trim_end_matches(')').split_once('.') {
                    None => quotation(converted),
                    Some((alias, constant)) => {
                        let imported = self.imported(sources, alias)?.unwrap_or_default();
                        imported.lines().find_map(|line| {
                            let (declaration, value) = line.trim().split_once('=')?;
                            let found = declaration.split_whitespace().next() == Some(constant);
                            found.then(|| quotation(value)).flatten()
                        })
                    }
                },
                _ => None,
            };
            values.extend(text);
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

/// The text in quotes at the start of an expression.
fn quotation(expression: &str) -> Option<String> {
    Some(expression.trim().strip_prefix('"')?.split_once('"')?.0.to_owned())
}

/// The sources of a package that declare types.
fn sources(package: &Path) -> Result<String, Box<dyn Error>> {
    let mut sources = String::new();
    let mut paths: Vec<PathBuf> = fs::read_dir(package)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if file.starts_with("types") && file.ends_with(".go") {
            sources.push_str(&fs::read_to_string(path)?);
        }
    }
    Ok(sources)
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
            let type_ = declaration.split_whitespace().nth(1).unwrap_or_default().to_owned();
            let pointer = type_.starts_with('*');
            let keep = pointer || !options.contains("omit");
            fields.insert(
                name.to_owned(),
                Tag {
                    tag: number.to_owned(),
                    keep,
                    pointer,
                    omits_empty: options.contains("omitempty"),
                    omits_zero: options.contains("omitzero"),
                    values: Vec::new(),
                    type_,
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
