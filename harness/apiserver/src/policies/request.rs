//! The type of the variable `request`: an AdmissionRequest without its objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cel::Type;

/// More than any list or map in a request has.
const MANY: u64 = 1 << 20;

pub(super) fn type_of_request() -> Type {
    let text = Type::any_text;
    let texts = || Type::List {
        items: Arc::new(text()),
        most: MANY,
    };
    let kind = || object([("group", text()), ("version", text()), ("kind", text())]);
    let resource = || object([("group", text()), ("version", text()), ("resource", text())]);
    let extra = Type::Map {
        values: Arc::new(texts()),
        most: MANY,
    };
    let user = object([
        ("username", text()),
        ("uid", text()),
        ("groups", texts()),
        ("extra", extra),
    ]);
    object([
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", text()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", user),
        ("dryRun", Type::Bool),
        ("options", Type::Dynamic),
    ])
}

fn object<const N: usize>(fields: [(&str, Type); N]) -> Type {
    let named = fields.map(|(name, type_)| (name.to_owned(), type_));
    Type::Object(Arc::new(BTreeMap::from(named)))
}
