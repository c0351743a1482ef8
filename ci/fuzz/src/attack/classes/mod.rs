//! The classes of hostile requests, one file for each.

mod definitions;
mod depth;
mod expressions;
mod heavy;
mod machines;
mod mutated;
mod numbers;
mod rights;

use std::fmt::Write as _;

use clock::Stream;
use http::Request;
use serde_json::{Value, json};

use crate::{DEFINITIONS, definition_of};

/// Resources of the system that are served after every class.
const CORE: [&str; 4] = [
    "/api/v1/pods",
    "/apis/apps/v1/deployments",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/machine.sapcloud.io/v1alpha1/machines",
];

/// A class of hostile requests.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// The name on the command line.
    pub name: &'static str,
    /// What it tries.
    pub tries: &'static str,
    /// How many requests one round counts as: heavy classes have fewer rounds.
    pub(super) cost: u64,
    /// Objects that the requests refer to.
    pub(super) prepare: fn() -> Vec<Hostile>,
    /// The requests of a round.
    pub(super) requests: fn(&mut Stream, u64) -> Vec<Hostile>,
    /// Paths that are still served afterwards.
    pub(super) still_served: &'static [&'static str],
}

/// All classes.
pub const ALL: [Class; 8] = [
    Class {
        prepare: mutated::prepare,
        ..class("mutated", "mutated requests of the fuzz corpus", 1, mutated::requests)
    },
    class(
        "depth",
        "deep values as bodies, results of patches, schemas and paths",
        4,
        depth::requests,
    ),
    class(
        "cel",
        "validation rules that nest, overflow, or run for long",
        3,
        expressions::requests,
    ),
    class(
        "numbers",
        "numbers at the limits of types in objects and parameters",
        2,
        numbers::requests,
    ),
    Class {
        prepare: rights::prepare,
        ..class(
            "rights",
            "selectors, impersonation and tokens that try to gain rights",
            1,
            rights::requests,
        )
    },
    class(
        "shadow",
        "definitions of built-in resources and protected groups",
        2,
        definitions::requests,
    ),
    Class {
        prepare: heavy::prepare,
        ..class(
            "heavy",
            "large bodies, merges and lists, many at the same time",
            20,
            heavy::requests,
        )
    },
    Class {
        prepare: machines::prepare,
        ..class(
            "machines",
            "machine objects that fit the schema and not the types, and hostile status",
            2,
            machines::requests,
        )
    },
];

const fn class(
    name: &'static str,
    tries: &'static str,
    cost: u64,
    requests: fn(&mut Stream, u64) -> Vec<Hostile>,
) -> Class {
    Class {
        name,
        tries,
        cost,
        prepare: Vec::new,
        requests,
        still_served: &CORE,
    }
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// The administrator.
    Admin,
    /// A user who may do everything with the Secret `mine`, and nothing else.
    Limited,
    /// A client without a certificate.
    Anonymous,
}

/// What a response must not be, apart from an internal error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Anything is correct.
    Served,
    /// It must not succeed.
    Refused,
    /// It must not contain another object than `mine`.
    OnlyMine,
}

/// A hostile request.
#[derive(Debug)]
pub(super) struct Hostile {
    pub(super) request: Request<Vec<u8>>,
    pub(super) user: User,
    pub(super) check: Check,
}

impl Hostile {
    fn new(request: Request<Vec<u8>>) -> Self {
        Self {
            request,
            user: User::Admin,
            check: Check::Served,
        }
    }

    /// A request as the administrator. A path that cannot be sent becomes one that does not exist.
    fn body(method: &str, path: &str, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", media_type).body(body.into());
        Self::new(request.unwrap_or_default())
    }

    fn json(method: &str, path: &str, body: &Value) -> Self {
        Self::body(method, path, "application/json", body.to_string())
    }

    fn post(path: &str, body: &Value) -> Self {
        Self::json("POST", path, body)
    }

    fn delete(path: &str) -> Self {
        Self::body("DELETE", path, "application/json", "")
    }

    /// Reads a path as the administrator.
    pub(super) fn get(path: &str) -> Self {
        Self::body("GET", path, "application/json", "")
    }

    fn by(self, user: User) -> Self {
        Self { user, ..self }
    }

    fn must(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// A short description.
    pub(super) fn what(&self) -> String {
        let mut text = format!(
            "{} {} ({} bytes)",
            self.request.method(),
            self.request.uri(),
            self.request.body().len()
        );
        if self.user != User::Admin {
            let _ = write!(text, " as {:?}", self.user);
        }
        text.chars().take(200).collect()
    }
}

fn pick<'a, T>(from: &'a [T], stream: &mut Stream) -> &'a T {
    &from[usize::try_from(stream.below(from.len() as u64)).unwrap_or(0)]
}

/// The definition of a namespaced kind in the group `example.com`, served as `v1`.
fn definition(plural: &str, schema: &Value, columns: &Value) -> Value {
    definition_of(plural, &plural.to_uppercase(), schema, columns)
}

/// The path of objects of such a definition.
fn objects_of(plural: &str) -> String {
    format!("/apis/example.com/v1/namespaces/default/{plural}")
}

/// An object of such a definition.
fn object_of(plural: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": plural.to_uppercase(), "metadata": { "name": name }, "spec": spec })
}

/// Sets the value at a path of names and indexes, with the objects above it.
fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for name in path.split('/').skip(1) {
        let name = name.replace("~1", "/");
        at = match at {
            Value::Array(items) => &mut items[name.parse::<usize>().unwrap_or(0)],
            other => &mut other[name],
        };
    }
    *at = value;
}

#[cfg(test)]
mod tests {
    use clock::Seed;

    use super::*;

    /// A round can be repeated, and the rounds of a class are not the same.
    #[test]
    fn the_requests_of_a_round_depend_only_on_seed_and_round() {
        for class in ALL {
            let text = |seed, round: u64| {
                let mut stream = Seed::new(seed).child(class.name).stream(&format!("round/{round}"));
                format!("{:?}", (class.requests)(&mut stream, round))
            };
            let rounds: Vec<String> = (0..8).map(|round| text(1, round)).collect();
            assert_eq!(
                rounds,
                (0..8).map(|round| text(1, round)).collect::<Vec<_>>(),
                "{}",
                class.name
            );
            assert!(rounds.windows(2).any(|pair| pair[0] != pair[1]), "{}", class.name);
            assert!(rounds[0] != text(2, 0) || rounds[1] != text(2, 1), "{}", class.name);
        }
    }

    #[test]
    fn a_value_is_set_with_the_objects_above_it() {
        let mut object = json!({ "list": [{}] });
        set(&mut object, "/a/b~1c", json!(1));
        set(&mut object, "/list/0/d", json!(2));
        assert_eq!(object, json!({ "a": { "b/c": 1 }, "list": [{ "d": 2 }] }));
    }
}
