//! The `authorizer` of expressions: asks what an account may do.

use std::sync::Arc;

use super::Context;
use super::request::Request;
use crate::authorization::{Action, Decision, ResourceAction};
use crate::cel::{Native, Value, native};
use crate::identity::Identity;
use crate::policies::Target;
use crate::reviewer::Subject;

/// The cost of a check, as in upstream.
const CHECK_COST: u64 = 350_000;

/// A step of a question about one account.
#[derive(Clone)]
struct AuthorizerValue {
    context: Arc<dyn Context>,
    who: Identity,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing yet; `requestResource` is that of the request.
    Start {
        request: Box<ResourceAction>,
    },
    Group(String),
    Resource(Box<ResourceAction>),
    Path(String),
    Decided(Decision),
}

/// The variable `authorizer` of a request.
pub(crate) fn authorizer(context: &Arc<dyn Context>, request: &Request, subject: &Subject<'_>) -> Value {
    let Target {
        group,
        version: _,
        resource,
        subresource,
    } = request.target.clone();
    native(AuthorizerValue {
        context: Arc::clone(context),
        who: request.user.clone(),
        state: State::Start {
            request: Box::new(ResourceAction {
                verb: String::new(),
                group,
                resource,
                subresource,
                namespace: subject.namespace.to_owned(),
                name: subject.name.to_owned(),
            }),
        },
    })
}

/// Without the server, of which errors of functions would show a part.
impl std::fmt::Debug for AuthorizerValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("authorizer")
    }
}

impl AuthorizerValue {
    fn with(&self, state: State) -> Value {
        native(Self { state, ..self.clone() })
    }

    fn check(&self, action: &Action) -> Value {
        let registry = self.context.registry();
        let decision = self.context.authorizer().explain(registry.store(), &self.who, action);
        self.with(State::Decided(decision))
    }
}

impl Native for AuthorizerValue {
    fn field(&self, name: &str) -> Option<Value> {
        match &self.state {
            State::Start { request } if name == "requestResource" => Some(self.with(State::Resource(request.clone()))),
            _ => None,
        }
    }

    fn cost(&self, function: &str) -> u64 {
        if function == "check" { CHECK_COST } else { 1 }
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Result<Value, String> {
        let texts: Vec<&str> = arguments
            .iter()
            .filter_map(|argument| match argument {
                Value::String(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let texts = if texts.len() == arguments.len() {
            texts.as_slice()
        } else {
            &["", "", ""]
        };
        Ok(match (&self.state, function, texts) {
            (State::Start { .. }, "group", [group]) => self.with(State::Group((*group).to_owned())),
            (State::Start { .. }, "path", ["" | "/"]) => return Err("path must not be empty".to_owned()),
            (State::Start { .. }, "path", [path]) => self.with(State::Path((*path).to_owned())),
            (State::Start { .. }, "serviceAccount", [namespace, name]) => native(Self {
                who: Identity::service_account(namespace, name).authenticated(),
                ..self.clone()
            }),
            (State::Group(group), "resource", [resource]) => self.with(State::Resource(Box::new(ResourceAction {
                group: group.clone(),
                resource: (*resource).to_owned(),
                ..ResourceAction::default()
            }))),
            (State::Resource(action), _, [value]) if function != "check" => {
                let mut action = action.clone();
                let value = (*value).to_owned();
                match function {
                    "subresource" => action.subresource = value,
                    "namespace" => action.namespace = value,
                    "name" => action.name = value,
                    // Roles do not depend on selectors.
                    "fieldSelector" | "labelSelector" => {}
                    _ => return Err("no such overload".to_owned()),
                }
                self.with(State::Resource(action))
            }
            (State::Resource(action), "check", [verb]) => self.check(&Action::Resource(ResourceAction {
                verb: (*verb).to_owned(),
                ..action.as_ref().clone()
            })),
            (State::Path(path), "check", [verb]) => self.check(&Action::Path {
                verb: (*verb).to_owned(),
                path: path.clone(),
            }),
            (State::Decided(decision), "allowed", []) => Value::Bool(decision.allowed),
            (State::Decided(decision), "reason", []) => decision.reason.as_str().into(),
            (State::Decided(_), "errored", []) => Value::Bool(false),
            (State::Decided(_), "error", []) => "".into(),
            _ => return Err("no such overload".to_owned()),
        })
    }
}
