//! Changes of objects by policies and webhooks, in upstream's order.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::effect::Effect;
use super::request::Request;
use super::{Context, mutations, webhooks};
use crate::policies::{Binding, MutatingPolicy, Webhook};
use crate::reviewer::Subject;
use crate::status::ApiError;

/// Something that changes objects.
#[derive(Debug)]
pub(crate) enum Mutator {
    Policy(MutatingPolicy, Vec<Binding>),
    Webhook(Webhook),
}

impl Mutator {
    /// Whether it sees the object again after something later has changed it.
    fn is_reinvoked(&self) -> bool {
        match self {
            Self::Policy(policy, _) => policy.is_reinvoked,
            Self::Webhook(webhook) => webhook.is_reinvoked,
        }
    }
}

/// The object as the mutators change it, one after the other; `None` if none changes it. Adds warnings.
///
/// # Errors
/// The refusal.
pub(crate) fn mutate(
    context: &Arc<dyn Context>,
    mutators: &[Mutator],
    (request, subject): (&Request, &Subject<'_>),
    warnings: &mut Vec<String>,
) -> Result<Option<Value>, ApiError> {
    let mut object: Option<Value> = None;
    // Those that have seen the current object, and those that have seen only an earlier one.
    let (mut current, mut outdated) = (BTreeSet::new(), BTreeSet::new());
    for is_again in [false, true] {
        if is_again && object.is_some() {
            // Upstream applies these again after any change, also their own.
            let is_policy = |index: &usize| matches!(mutators.get(*index), Some(Mutator::Policy(..)));
            outdated.extend(current.iter().filter(|index| is_policy(index)));
        }
        for (index, mutator) in mutators.iter().enumerate() {
            if is_again && !outdated.remove(&index) {
                continue;
            }
            let subject = Subject {
                new: object.as_ref().or(subject.new),
                ..*subject
            };
            let effect = match mutator {
                Mutator::Policy(policy, bindings) => {
                    mutations::apply(context, (policy, bindings), (request, &subject))?
                }
                Mutator::Webhook(webhook) => webhooks::mutate(context, webhook, (request, &subject), warnings)?,
            };
            match effect {
                Effect::None => continue,
                Effect::Seen => {}
                Effect::Changed(changed) => {
                    outdated.append(&mut current);
                    object = Some(changed);
                }
            }
            if mutator.is_reinvoked() {
                current.insert(index);
            }
        }
    }
    Ok(object)
}
