//! The functions of expressions: their cost, their result type, and the calls of those of the crate `kube-cel`. What
//! could exhaust memory or time there is checked or implemented here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::quantity::Quantity;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::{Context, ExecutionError, IdedExpr};

use super::cost::tenth;
use super::native::native_of;
use super::types::Type;
use super::{Value, format, time, url};

/// The maximum precision in a format.
pub(super) const MAX_PRECISION: u64 = 1000;
const OVERLOAD: &str = "no such overload";
/// The longest message of a function that is passed on.
const MAX_MESSAGE: usize = 1000;

/// All functions of Kubernetes' libraries.
const KNOWN: &[&str] = &[
    "add",
    "asApproximateFloat",
    "asInteger",
    "base64.decode",
    "base64.encode",
    "bool",
    "bytes",
    "charAt",
    "cidr",
    "compareTo",
    "contains",
    "containsCIDR",
    "containsIP",
    "distinct",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "family",
    "find",
    "findAll",
    "first",
    "flatten",
    "format",
    "format.byte",
    "format.date",
    "format.datetime",
    "format.dns1035Label",
    "format.dns1035LabelPrefix",
    "format.dns1123Label",
    "format.dns1123LabelPrefix",
    "format.dns1123Subdomain",
    "format.dns1123SubdomainPrefix",
    "format.labelValue",
    "format.named",
    "format.qualifiedName",
    "format.uri",
    "format.uuid",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getEscapedPath",
    "getFullYear",
    "getHost",
    "getHostname",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getPort",
    "getQuery",
    "getScheme",
    "getSeconds",
    "hasValue",
    "indexOf",
    "int",
    "ip",
    "ip.isCanonical",
    "isCIDR",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "join",
    "jsonpatch.escapeKey",
    "last",
    "lastIndexOf",
    "lists.range",
    "lowerAscii",
    "major",
    "masked",
    "matches",
    "math.abs",
    "math.bitAnd",
    "math.bitNot",
    "math.bitOr",
    "math.bitShiftLeft",
    "math.bitShiftRight",
    "math.bitXor",
    "math.ceil",
    "math.floor",
    "math.greatest",
    "math.isFinite",
    "math.isInf",
    "math.isNaN",
    "math.least",
    "math.round",
    "math.sign",
    "math.sqrt",
    "math.trunc",
    "max",
    "min",
    "minor",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "patch",
    "prefixLength",
    "quantity",
    "replace",
    "reverse",
    "semver",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "sign",
    "size",
    "slice",
    "sort",
    "split",
    "startsWith",
    "string",
    "strings.quote",
    "sub",
    "substring",
    "sum",
    "timestamp",
    "trim",
    "type",
    "uint",
    "upperAscii",
    "url",
    "validate",
    "value",
];

pub(super) fn is_known(function: &str) -> bool {
    KNOWN.contains(&function)
}

/// The cost of a call beyond that of its arguments. `sizes` are those of the target and the arguments; `count` is the
/// value of an argument that is a number, if it is known.
pub(super) fn cost(function: &str, sizes: &[u64], count: Option<u64>) -> u64 {
    let first = sizes.first().copied().unwrap_or(1);
    let second = sizes.get(1).copied().unwrap_or(1);
    match function {
        "contains" => tenth(first).saturating_mul(tenth(second)),
        "startsWith" | "endsWith" => tenth(second),
        "matches" | "find" | "findAll" => tenth(first.saturating_add(1)).saturating_mul(second.div_ceil(4).max(1)),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "first" | "last" | "reverse" | "slice" => {
            first
        }
        "distinct" | "sort" => first.saturating_mul(first),
        "flatten" => first,
        "sets.contains" | "sets.equivalent" | "sets.intersects" => first.saturating_mul(second),
        "lists.range" => count.unwrap_or(u64::MAX),
        "size" | "dyn" | "type" => 1,
        "join" => first.saturating_mul(tenth(second).max(1)),
        "replace" => tenth(first),
        "int" | "uint" | "double" | "bool" | "string" | "bytes" | "timestamp" | "duration" | "lowerAscii"
        | "upperAscii" | "trim" | "substring" | "charAt" | "split" | "strings.quote" | "quantity" | "isQuantity"
        | "url" | "isURL" | "ip" | "isIP" | "cidr" | "isCIDR" | "semver" | "isSemver" | "base64.decode"
        | "base64.encode" | "format" | "validate" => tenth(first).max(1),
        _ => 1,
    }
}

/// Whether upstream estimates a conversion of a text without its size.
pub(super) fn is_conversion(function: &str) -> bool {
    matches!(function, "int" | "uint" | "double" | "bool" | "timestamp" | "duration")
}

/// The type of the result.
pub(super) fn result(function: &str, types: &[Type], count: Option<u64>) -> Type {
    let first = types.first().cloned().unwrap_or(Type::Dynamic);
    let text = |factor: u64| Type::Text {
        most: first.most().unwrap_or(32).saturating_mul(factor),
    };
    match function {
        "contains"
        | "startsWith"
        | "endsWith"
        | "matches"
        | "isSorted"
        | "sets.contains"
        | "sets.equivalent"
        | "sets.intersects"
        | "bool"
        | "isQuantity"
        | "isURL"
        | "isIP"
        | "isCIDR"
        | "isSemver"
        | "isGreaterThan"
        | "isLessThan"
        | "isInteger"
        | "hasValue"
        | "containsIP"
        | "containsCIDR"
        | "ip.isCanonical"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast" => Type::Bool,
        "size" | "int" | "lastIndexOf" | "indexOf" | "compareTo" | "family" | "prefixLength" | "major" | "minor"
        | "patch" => Type::Int,
        "getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath" | "jsonpatch.escapeKey" => {
            Type::any_text()
        }
        "uint" => Type::Uint,
        "double" => Type::Double,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "bytes" => Type::Bytes {
            most: first.most().unwrap_or(32),
        },
        "string" | "lowerAscii" | "upperAscii" | "trim" | "substring" | "charAt" | "find" => text(1),
        "strings.quote" => text(4),
        "replace" => text(types.get(2).and_then(Type::most).unwrap_or(1).max(1)),
        "format" => Type::any_text(),
        "join" => Type::Text {
            most: first
                .most()
                .unwrap_or(1)
                .saturating_mul(first.elements().most().unwrap_or(32)),
        },
        "findAll" | "split" => Type::List {
            items: Arc::new(text(1)),
            most: first.most().unwrap_or(1),
        },
        "lists.range" => Type::List {
            items: Arc::new(Type::Int),
            most: count.unwrap_or(u64::MAX),
        },
        "reverse" | "slice" | "sort" | "distinct" => first,
        "sum" | "max" | "min" | "first" | "last" => match &first {
            Type::List { items, .. } => items.as_ref().clone(),
            _ => Type::Dynamic,
        },
        "orValue" | "value" => match &first {
            Type::Optional(inner) => inner.as_ref().clone(),
            _ => Type::Dynamic,
        },
        "optional.of" => Type::Optional(Arc::new(first)),
        _ => Type::Dynamic,
    }
}

thread_local! {
    static LIBRARY: Context<'static> = {
        let mut context = Context::default();
        context.register_all();
        context
    };
}

/// Calls a function of the library with values.
///
/// # Errors
/// The message of the function; also if it panics.
pub(crate) fn call(function: &str, target: Option<Value>, arguments: Vec<Value>) -> Result<Value, String> {
    check(function, target.as_ref(), &arguments)?;
    let arguments = prepared(function, target.as_ref(), arguments)?;
    if let Some(found) = own(function, target.as_ref(), &arguments) {
        return found;
    }
    let is_conversion =
        matches!(function, "int" | "uint" | "double") && matches!(arguments.as_slice(), [Value::String(_)]);
    let called = AssertUnwindSafe(|| {
        LIBRARY.with(|library| {
            let mut scope = library.new_inner_scope();
            let mut bind = |name: String, value: Value| {
                scope.add_variable_from_value(name.clone(), value);
                IdedExpr {
                    id: 0,
                    expr: Expr::Ident(name),
                }
            };
            let target = target.map(|target| Box::new(bind("@target".to_owned(), target)));
            let numbered = arguments.into_iter().enumerate();
            let args = numbered
                .map(|(index, argument)| bind(format!("@{index}"), argument))
                .collect();
            let expr = Expr::Call(CallExpr {
                func_name: function.to_owned(),
                target,
                args,
            });
            Value::resolve(&IdedExpr { id: 0, expr }, &scope)
        })
    });
    match catch_unwind(called) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) if is_conversion => Err(format!("type conversion error from 'string' to '{function}'")),
        Ok(Err(error)) => Err(message(&error)),
        Err(_) => Err(format!("the function {function} failed")),
    }
}

/// Without values that can be maps, whose entries have a random order, and shortened.
fn message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchOverload
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. } => OVERLOAD.to_owned(),
        other => other.to_string().chars().take(MAX_MESSAGE).collect(),
    }
}

/// Rejects arguments from which the library would build unlimited values.
fn check(function: &str, target: Option<&Value>, arguments: &[Value]) -> Result<(), String> {
    match (function, target.or(arguments.first())) {
        ("format", Some(Value::String(text)))
            if format::precisions(text).any(|precision| precision > MAX_PRECISION) =>
        {
            Err(format!("a precision exceeds {MAX_PRECISION}"))
        }
        // The library's messages for these have the entries of maps in random order.
        ("int" | "uint" | "double", Some(Value::List(_) | Value::Map(_) | Value::Opaque(_)))
        | ("string", Some(Value::List(_) | Value::Map(_))) => Err(OVERLOAD.to_owned()),
        ("string", Some(value)) if native_of(value).is_some() => Err(OVERLOAD.to_owned()),
        ("join", Some(Value::List(items))) if items.iter().any(|item| !matches!(item, Value::String(_))) => {
            Err(OVERLOAD.to_owned())
        }
        _ => Ok(()),
    }
}

/// Replaces the text of a quantity by its canonical form, which is short for all exponents, and lists and maps in a
/// format by their text, in which the keys are sorted.
fn prepared(function: &str, target: Option<&Value>, mut arguments: Vec<Value>) -> Result<Vec<Value>, String> {
    match (function, target, arguments.as_mut_slice()) {
        ("quantity", _, [Value::String(text)]) => {
            let quantity: Quantity = text.parse().map_err(|_| ::quantity::REFUSAL.to_owned())?;
            *text = quantity.to_string().into();
        }
        ("format", Some(Value::String(format)), [Value::List(values)]) => {
            *values = format::with_texts(format, values).ok_or(OVERLOAD)?.into();
        }
        _ => {}
    }
    Ok(arguments)
}

/// Functions that the library does not implement safely.
fn own(function: &str, target: Option<&Value>, arguments: &[Value]) -> Option<Result<Value, String>> {
    // The library's numbers have 32 bits, so that 1000h have a negative number of milliseconds.
    if let Some(found) = target.and_then(|target| time::field(function, target, arguments)) {
        return Some(found);
    }
    match (function, target, arguments) {
        ("isQuantity", None, [Value::String(text)]) if text.parse::<Quantity>().is_err() => {
            Some(Ok(Value::Bool(false)))
        }
        ("sum", Some(Value::List(items)), []) => {
            let zero = match items.first() {
                Some(Value::UInt(_)) => Value::UInt(0),
                Some(Value::Float(_)) => Value::Float(0.0),
                Some(first @ Value::Duration(_)) => {
                    let rest = items.iter().skip(1).cloned();
                    return Some(rest.fold(Ok(first.clone()), sum));
                }
                _ => Value::Int(0),
            };
            Some(items.iter().cloned().fold(Ok(zero), sum))
        }
        ("dyn", None, [value]) => Some(Ok(value.clone())),
        ("string", None, [Value::Bool(value)]) => Some(Ok(value.to_string().into())),
        // The library ignores further parts of a number that it completes.
        ("isSemver", None, [Value::String(text), Value::Bool(true)]) if has_many_parts(text) => {
            Some(Ok(Value::Bool(false)))
        }
        ("semver", None, [Value::String(text), Value::Bool(true)]) if has_many_parts(text) => {
            Some(Err("Invalid character(s) found in patch number".to_owned()))
        }
        ("jsonpatch.escapeKey", None, [Value::String(text)]) => {
            Some(Ok(text.replace('~', "~0").replace('/', "~1").into()))
        }
        ("url", None, [Value::String(text)]) => Some(url::url(text)),
        ("isURL", None, [Value::String(text)]) => Some(Ok(Value::Bool(url::is_url(text)))),
        ("split", Some(Value::String(text)), [Value::String(separator), rest @ ..]) => match rest {
            [] => Some(Ok(split(text, separator, -1))),
            [Value::Int(most)] => Some(Ok(split(text, separator, *most))),
            _ => None,
        },
        ("bool", None, [value @ Value::Bool(_)]) => Some(Ok(value.clone())),
        ("bool", None, [Value::String(text)]) => Some(match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err("type conversion error from 'string' to 'bool'".to_owned()),
        }),
        ("bool", ..) => Some(Err(OVERLOAD.to_owned())),
        ("type", None, [value]) => type_of(value).map(Ok),
        _ => None,
    }
}

/// Whether the number of a version has more than three parts.
fn has_many_parts(version: &str) -> bool {
    let number = version.split(['-', '+']).next().unwrap_or_default();
    number.split('.').count() > 3
}

/// Splits a text as Go does: an empty separator splits it into characters; a negative limit is none.
fn split(text: &str, separator: &str, most: i64) -> Value {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let parts: Vec<&str> = if separator.is_empty() {
        let starts = text.char_indices().map(|(start, _)| start).take(most);
        let starts: Vec<usize> = starts.collect();
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        starts
            .iter()
            .zip(ends)
            .filter_map(|(start, end)| text.get(*start..end))
            .collect()
    } else {
        text.splitn(most, separator).collect()
    };
    let parts: Vec<Value> = parts.into_iter().map(Value::from).collect();
    Value::List(parts.into())
}

/// The type of a value, as a value.
fn type_of(value: &Value) -> Option<Value> {
    type_named(match value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        _ => return None,
    })
}

/// The value of the name of a type. It equals no text that JSON contains.
pub(super) fn type_named(name: &str) -> Option<Value> {
    const NAMES: [&str; 9] = [
        "bool",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "list",
        "map",
        "null_type",
    ];
    NAMES
        .contains(&name)
        .then(|| Value::Function(Arc::new(name.to_owned()), None))
}

/// Adds with a check for overflow.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "the operators of this type return an error on overflow"
)]
fn sum(total: Result<Value, String>, item: Value) -> Result<Value, String> {
    (total? + item).map_err(|error| match error {
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        _ => OVERLOAD.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that are not the library's.
    const OWN: &[&str] = &[
        "getEscapedPath",
        "getHost",
        "getHostname",
        "getPort",
        "getQuery",
        "getScheme",
        "isURL",
        "jsonpatch.escapeKey",
        "url",
    ];

    #[rstest::rstest]
    #[case("a,b,c", ",", -1, &["a", "b", "c"])]
    #[case("a,b,c", ",", 2, &["a", "b,c"])]
    #[case("a,b,c", ",", 0, &[])]
    #[case("äbc", "", -1, &["ä", "b", "c"])]
    #[case("äbc", "", 2, &["ä", "bc"])]
    #[case("abc", "", 0, &[])]
    #[case("", "", -1, &[])]
    #[case("", ",", -1, &[""])]
    fn texts_are_split_as_go_does(
        #[case] text: &str,
        #[case] separator: &str,
        #[case] most: i64,
        #[case] expected: &[&str],
    ) {
        let expected: Vec<Value> = expected.iter().map(|part| Value::from(*part)).collect();
        assert_eq!(split(text, separator, most), Value::List(expected.into()));
    }

    #[test]
    fn all_known_functions_exist() {
        let is_undeclared = |function: &str| {
            let values = vec![Value::Int(1)];
            let result = call(function, None, values);
            result.is_err_and(|why| why.contains("Undeclared reference"))
        };
        let missing: Vec<&str> = KNOWN.iter().copied().filter(|name| is_undeclared(name)).collect();
        assert_eq!(missing, OWN);
    }
}
