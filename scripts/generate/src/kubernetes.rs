//! Writes the table of Kubernetes' built-in types that the embedded API server reads:
//! `harness/apiserver/src/types/kubernetes-1.36.tsv`.
//!
//! Facts only, no prose. Fields, their types and the `x-kubernetes-*` extensions come from the
//! OpenAPI definitions in the PyPI package `kubernetes-validate`; protobuf tags and what is kept
//! when zero come from the struct tags in the Go modules `k8s.io/api` and its siblings. Both are
//! fetched by their ordinary clients (`pip`, `go`) in pinned versions.

mod go;
mod openapi;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use self::go::{Modules, Struct, Tag};
use self::openapi::Definition;

/// The minor version whose types are written.
const MINOR: &str = "1.36";
/// The release of the PyPI package.
const DEFINITIONS: &str = "kubernetes-validate==1.37.0";
/// The version of the Go modules.
const MODULES: &str = "v0.36.3";

/// Regenerates the table below the repository's root.
pub fn generate(root: &Path) -> Result<(), Box<dyn Error>> {
    let scratch = root.join("scripts/generate/target/kubernetes");
    fs::create_dir_all(&scratch)?;
    let definitions = openapi::definitions(&scratch, DEFINITIONS, MINOR)?;
    let modules = Modules::download(&scratch, MODULES)?;
    let mut text =
        format!("# Built-in types of Kubernetes {MINOR}, written by `make generate`; the format is in table.rs.\n");
    for definition in &definitions {
        write_type(&mut text, definition, modules.find(&definition.name)?)?;
    }
    let target = root.join(format!("harness/apiserver/src/types/kubernetes-{MINOR}.tsv"));
    fs::write(target, text)?;
    Ok(())
}

/// One line for the type and one for each of its fields.
fn write_type(text: &mut String, definition: &Definition, tags: Option<Struct>) -> Result<(), Box<dyn Error>> {
    let kind = definition
        .kind
        .as_ref()
        .map_or("-\t-".to_owned(), |(version, kind)| format!("{version}\t{kind}"));
    let flags = if definition.atomic { "\tmap=atomic" } else { "" };
    writeln!(text, "{}\t{kind}{flags}", definition.name)?;
    let tags = tags.unwrap_or_default();
    for field in &definition.fields {
        let (tag, mut flags) = match tags.get(&field.name) {
            Some(found) if found.keep => (found.tag.as_str(), vec!["keep".to_owned()]),
            Some(found) => (found.tag.as_str(), vec![]),
            None => ("-", vec![]),
        };
        flags.extend(tags.get(&field.name).and_then(|found| zero(found, &field.shape)));
        flags.extend(field.flags.iter().cloned());
        let values = tags.get(&field.name).map_or(&[][..], |found| &found.values);
        write!(text, "\t{}\t{tag}\t{}", field.name, field.shape)?;
        if !flags.is_empty() || !values.is_empty() {
            write!(text, "\t{}", flags.join(" "))?;
        }
        if !values.is_empty() {
            write!(text, "\t{}", values.join(","))?;
        }
        text.push('\n');
    }
    for name in tags
        .keys()
        .filter(|name| definition.fields.iter().all(|field| &field.name != *name))
    {
        eprintln!(
            "{}: the Go struct has a field {name} that the definition lacks",
            definition.name
        );
    }
    Ok(())
}

/// The flag of a field that Go writes even if nothing is set, and of its zero value.
fn zero(tag: &Tag, shape: &str) -> Option<String> {
    let is_struct = shape.starts_with("io.k8s.") && !tag.pointer;
    let omitted = tag.omits_zero || tag.omits_empty && !is_struct;
    let is_nil = tag.pointer || shape == "bytes" || shape.starts_with(['[', '{']);
    (!omitted).then(|| if is_nil { "always=null" } else { "always" }.to_owned())
}

/// Runs a client and returns what it printed.
fn run(program: &str, arguments: &[&str], directory: &Path) -> Result<String, Box<dyn Error>> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output()
        .map_err(|error| format!("cannot run {program}, which `make generate` needs: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{program} {} failed: {stderr}", arguments.join(" ")).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
