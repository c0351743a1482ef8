//! Tables (`meta.k8s.io/v1`), which `kubectl get` prints. The resource definition contains the printer; `printers`
//! has those of the built-in kinds. The current time is an argument.

mod age;
mod paths;
pub mod printers;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use self::age::human;
use crate::resource::{Column, Printer, Resource};

/// The part of the object in each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// The metadata.
    Metadata,
    /// The whole object.
    Object,
}

/// Renders objects as a Table. `list_metadata` becomes the table's own metadata; `now_unix` is in seconds since 1970;
/// a watch needs columns only in its first event.
pub fn render(
    resource: &Resource,
    objects: &[Value],
    list_metadata: Value,
    include: Include,
    now_unix: i64,
    with_columns: bool,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({ "cells": cells(resource, object, now_unix) });
            match include {
                Include::None => {}
                Include::Metadata => row["object"] = metadata_only(object),
                Include::Object => row["object"] = object.clone(),
            }
            row
        })
        .collect();
    let columns: Vec<Value> = if with_columns {
        definitions(resource)
    } else {
        Vec::new()
    };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn metadata_only(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

fn definitions(resource: &Resource) -> Vec<Value> {
    let render = |column: &Column| {
        json!({
            "name": column.name,
            "type": column.type_,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    };
    match &resource.printer {
        Printer::Default => printers::columns(&[("Name", "string", 0), ("Age", "string", 0)])
            .iter()
            .map(render)
            .collect(),
        Printer::Paths(columns) => {
            let name = printers::columns(&[("Name", "string", 0)]);
            name.iter().chain(columns).map(render).collect()
        }
        Printer::Cells(columns, _) => columns.iter().map(render).collect(),
    }
}

fn cells(resource: &Resource, object: &Value, now_unix: i64) -> Vec<Value> {
    match &resource.printer {
        Printer::Default => vec![printers::name(object), printers::age(object, now_unix)],
        Printer::Paths(columns) => {
            let name = std::iter::once(printers::name(object));
            name.chain(columns.iter().map(|column| paths::cell(column, object, now_unix)))
                .collect()
        }
        Printer::Cells(_, print) => print(object, now_unix),
    }
}
