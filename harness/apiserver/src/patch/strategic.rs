//! Strategic merge patch: a merge patch that also merges lists, by the merge keys in the table of built-in types. The
//! directives are those of `k8s.io/apimachinery/pkg/util/strategicpatch`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::order::{self, Positions};
use super::too_large;
use crate::status::ApiError;
use crate::types::table::{Field, Form, Shape, Type, table};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";
/// The sizes of all lists into which a patch merges items, in bytes of text and values. A patch can name the same item
/// several times, and each time merge into its lists.
const MERGE_BUDGET: usize = 20_000_000;

/// Applies a strategic merge patch to an object of a built-in type; on an error `doc` is unchanged.
///
/// # Errors
/// 400 for a directive that is malformed or does not match its list, for list items without their merge key and for
/// patches that are not objects; 413 for a patch that merges into long lists too often; 422 for an unknown `$patch`.
pub fn strategic(doc: &mut Value, patch: &Value, type_name: &str) -> Result<(), ApiError> {
    let Value::Object(patch) = patch else {
        return Err(ApiError::bad_request("a strategic merge patch must be an object"));
    };
    let mut merged = doc.as_object().cloned().unwrap_or_default();
    let schema = table().find(type_name).map_or(Schema::Unknown, Schema::of);
    let mut left = MERGE_BUDGET;
    merge_map(&mut merged, patch.clone(), schema, &mut left)?;
    *doc = merged.into();
    Ok(())
}

/// The schema of a merged object.
#[derive(Clone, Copy)]
enum Schema {
    /// A type with fields.
    Type(&'static Type),
    /// A map with values of this shape.
    Map(&'static Shape),
    /// Unknown: members are merged, lists replaced.
    Unknown,
}

impl Schema {
    fn of(type_: &'static Type) -> Self {
        if type_.form == Form::Object {
            Self::Type(type_)
        } else {
            Self::Unknown
        }
    }

    fn of_shape(shape: &'static Shape) -> Self {
        match shape {
            Shape::Map(inner) => Self::Map(inner),
            shape => shape.type_().map_or(Self::Unknown, Self::of),
        }
    }

    fn field(self, name: &str) -> Option<&'static Field> {
        match self {
            Self::Type(type_) => type_.field(name),
            Self::Map(_) | Self::Unknown => None,
        }
    }

    /// The schema of a member object, and whether it is replaced instead of merged.
    fn member(self, name: &str) -> (Self, bool) {
        match self {
            Self::Map(inner) => (Self::of_shape(inner), false),
            _ => match self.field(name) {
                Some(field) => (Self::of_shape(&field.shape), field.replace),
                None => (Self::Unknown, false),
            },
        }
    }

    /// The schema of a member list.
    fn list(self, name: &str) -> ListSchema {
        match self.field(name) {
            Some(field) => {
                let items = field.type_().map_or(Self::Unknown, Self::of);
                ListSchema {
                    merge: field.merge,
                    key: field.merge_key.unwrap_or(""),
                    items,
                }
            }
            None => ListSchema {
                merge: false,
                key: "",
                items: Self::Unknown,
            },
        }
    }
}

/// The schema of a list.
#[derive(Clone, Copy)]
struct ListSchema {
    /// Whether the list is merged instead of replaced.
    merge: bool,
    /// The merge key; empty for lists of scalars.
    key: &'static str,
    /// The schema of the items.
    items: Schema,
}

fn malformed(why: impl Into<String>) -> ApiError {
    ApiError::bad_request(why)
}

fn unknown_directive(directive: &Value) -> ApiError {
    ApiError::new(422, "Invalid", format!("unknown patch type found: {directive}"))
}

fn merge_map(
    original: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: Schema,
    left: &mut usize,
) -> Result<(), ApiError> {
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "merge" => {}
        Some(Value::String(directive)) if directive == "delete" => {
            original.clear();
            return Ok(());
        }
        Some(Value::String(directive)) if directive == "replace" => {
            *original = without_directives(patch);
            return Ok(());
        }
        Some(other) => return Err(unknown_directive(&other)),
    }
    retain_keys(original, &mut patch)?;
    set_orders(original, &mut patch, schema, left)?;
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM_LIST) {
            delete_from_list(original, list, value, left)?;
        } else {
            merge_member(original, key, value, schema, left)?;
        }
    }
    Ok(())
}

fn merge_member(
    original: &mut Map<String, Value>,
    key: String,
    value: Value,
    schema: Schema,
    left: &mut usize,
) -> Result<(), ApiError> {
    if value.is_null() {
        original.remove(&key);
        return Ok(());
    }
    match (original.get_mut(&key), value) {
        (Some(Value::Object(original)), Value::Object(patch)) => match schema.member(&key) {
            (_, true) => *original = without_directives(patch),
            (inner, false) => merge_map(original, patch, inner, left)?,
        },
        (Some(Value::Array(original)), Value::Array(patch)) => {
            let items = std::mem::take(original);
            *original = merge_list(items, patch, schema.list(&key), left)?;
        }
        (_, value) => match stripped(value) {
            Some(value) => {
                original.insert(key, value);
            }
            None => {
                original.remove(&key);
            }
        },
    }
    Ok(())
}

/// `$retainKeys`: removes the members that it does not list.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), ApiError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = keys else {
        return Err(malformed("invalid patch format of retainKeys: not a list"));
    };
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let listed = |name: &String| keys.contains(name.as_str());
    let directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
    if let Some((name, _)) = patch
        .iter()
        .find(|(name, value)| !value.is_null() && !directive(name) && !listed(name))
    {
        return Err(malformed(format!(
            "invalid patch format of retainKeys: it does not list {name}, which the patch sets"
        )));
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// `$setElementOrder/<list>`: merges that list of the patch and sorts the items in the given order.
fn set_orders(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Schema,
    left: &mut usize,
) -> Result<(), ApiError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let name = directive[SET_ORDER.len()..].to_owned();
        let list = schema.list(&name);
        let wanted = match patch.remove(&directive) {
            Some(Value::Array(wanted)) => wanted,
            _ => {
                return Err(malformed(format!(
                    "invalid patch format of setElementOrder list: {directive} is not a list"
                )));
            }
        };
        if matches!(patch.get(&name), Some(Value::Null)) {
            continue;
        }
        let before = match original.get(&name) {
            Some(Value::Array(items)) => {
                spend(items, left)?;
                items.clone()
            }
            None | Some(Value::Null) => Vec::new(),
            Some(_) => return Err(malformed(format!("{name} is not a list"))),
        };
        let merged = match patch.remove(&name) {
            None if original.contains_key(&name) => before.clone(),
            None => continue,
            Some(Value::Array(items)) => {
                order::validate(&items, &wanted, list.key).map_err(malformed)?;
                merge_list(before.clone(), items, ListSchema { merge: true, ..list }, left)?
            }
            Some(_) => return Err(malformed(format!("{name} is not a list in the patch"))),
        };
        original.insert(name, order::arrange(merged, &wanted, &before, list.key).into());
    }
    Ok(())
}

/// `$deleteFromPrimitiveList/<list>`: removes values from a list of scalars.
fn delete_from_list(
    original: &mut Map<String, Value>,
    name: &str,
    values: Value,
    left: &mut usize,
) -> Result<(), ApiError> {
    let Value::Array(values) = values else {
        return Err(malformed(format!(
            "invalid patch format of primitive list: {DELETE_FROM_LIST}{name} is not a list"
        )));
    };
    if let Some(Value::Array(items)) = original.get_mut(name) {
        spend(items, left)?;
        let deleted = Positions::new(&values, "");
        items.retain(|item| deleted.of(item).is_none());
    }
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    list: ListSchema,
    left: &mut usize,
) -> Result<Vec<Value>, ApiError> {
    if !list.merge {
        return Ok(patch.into_iter().filter_map(stripped).collect());
    }
    spend(&original, left)?;
    if list.key.is_empty() {
        return merge_scalars(original, patch);
    }
    merge_items(original, patch, list, left)
}

/// Counts a merge into a list.
fn spend(items: &[Value], left: &mut usize) -> Result<(), ApiError> {
    let sizes = items.iter().map(size).fold(0, usize::saturating_add);
    *left = left.checked_sub(sizes).ok_or_else(|| {
        too_large(format!(
            "The lists into which a strategic merge patch merges items may have {MERGE_BUDGET} bytes and values"
        ))
    })?;
    Ok(())
}

/// The number of values, and of bytes of texts.
fn size(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).fold(0, usize::saturating_add),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| name.len().saturating_add(size(value)))
            .fold(0, usize::saturating_add),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    inside.saturating_add(1)
}

fn merge_scalars(original: Vec<Value>, patch: Vec<Value>) -> Result<Vec<Value>, ApiError> {
    if patch.iter().any(|item| item.is_object() || item.is_array()) {
        return Err(malformed("cannot merge lists of objects without a merge key"));
    }
    let all: Vec<Value> = original.iter().chain(&patch).cloned().collect();
    let first = Positions::new(&all, "");
    let distinct = all
        .iter()
        .enumerate()
        .filter(|(place, item)| first.of(item) == Some(*place));
    let merged = distinct.map(|(_, item)| item.clone()).collect();
    Ok(order::arrange(merged, &patch, &original, ""))
}

fn merge_items(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    list: ListSchema,
    left: &mut usize,
) -> Result<Vec<Value>, ApiError> {
    let mut items: Vec<Map<String, Value>> = Vec::new();
    let mut deleted: Vec<Value> = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(mut item) = item else {
            return Err(malformed(format!("cannot merge {item} into a list of objects")));
        };
        match item.remove(DIRECTIVE) {
            None => items.push(item),
            Some(Value::String(directive)) if directive == "merge" => items.push(item),
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "delete" => {
                if !item.contains_key(list.key) {
                    return Err(no_key(&item, list.key));
                }
                deleted.push(item.into());
            }
            Some(other) => return Err(unknown_directive(&other)),
        }
    }
    if replace {
        return Ok(items.into_iter().map(|item| without_directives(item).into()).collect());
    }
    let deleted = Positions::new(&deleted, list.key);
    original.retain(|other| deleted.of(other).is_none());
    let before = original.clone();
    let known = Positions::new(&before, list.key);
    let mut added: HashMap<String, usize> = HashMap::new();
    let mut order = Vec::new();
    for item in items {
        let key = item.get(list.key).ok_or_else(|| no_key(&item, list.key))?.clone();
        let text = key.to_string();
        let key = Value::Object(Map::from_iter([(list.key.to_owned(), key)]));
        let place = known.of(&key).or_else(|| added.get(&text).copied());
        order.push(key);
        match place.and_then(|place| original.get_mut(place)) {
            Some(Value::Object(found)) => merge_map(found, item, list.items, left)?,
            _ => {
                added.insert(text, original.len());
                original.push(without_directives(item).into());
            }
        }
    }
    Ok(order::arrange(original, &order, &before, list.key))
}

fn no_key(item: &Map<String, Value>, key: &str) -> ApiError {
    let item = Value::Object(item.clone());
    // Upstream reports this as an internal error.
    ApiError::new(
        500,
        "",
        format!("map: {item} does not contain declared merge key: {key}"),
    )
}

/// The value without directives and nulls; `None` if it is a deletion.
fn stripped(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.get(DIRECTIVE).is_some_and(|directive| directive == "delete") => None,
        Value::Object(map) => Some(without_directives(map).into()),
        Value::Array(items) => Some(items.into_iter().filter_map(stripped).collect()),
        scalar => Some(scalar),
    }
}

fn without_directives(map: Map<String, Value>) -> Map<String, Value> {
    let directive = |key: &str| {
        key == DIRECTIVE || key == RETAIN_KEYS || key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER)
    };
    map.into_iter()
        .filter(|(key, value)| !directive(key) && !value.is_null())
        .filter_map(|(key, value)| Some((key, stripped(value)?)))
        .collect()
}
