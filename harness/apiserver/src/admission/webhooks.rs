//! Decisions of webhooks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Context;
use super::effect::Effect;
use super::equivalent::{Equivalent, Seen};
use super::matching::matched;
use super::refusal::forbidden;
use super::request::Request;
use super::review::{self, Answer};
use super::values::{Values, hold};
use crate::json;
use crate::network::{Call, NoAnswer};
use crate::patch;
use crate::policies::{Reason, Webhook};
use crate::reviewer::Subject;
use crate::status::ApiError;

/// A call that is to be made, and the identity of its question.
struct Pending {
    call: Call,
    uid: String,
    equivalent: Option<Equivalent>,
}

/// What a webhook does with the object. Adds warnings.
///
/// # Errors
/// The refusal.
pub(crate) fn mutate(
    context: &Arc<dyn Context>,
    webhook: &Webhook,
    (request, subject): (&Request, &Subject<'_>),
    warnings: &mut Vec<String>,
) -> Result<Effect, ApiError> {
    let Some((answer, equivalent)) = ask(context, webhook, (request, subject))? else {
        return Ok(Effect::None);
    };
    Ok(match patched(webhook, answer, (subject, equivalent), warnings)? {
        Some(changed) => Effect::Changed(changed),
        None => Effect::Seen,
    })
}

/// Lets all webhooks decide at the same time; the first refusal in their order counts. Adds warnings.
///
/// # Errors
/// The refusal.
pub(crate) fn validate(
    context: &Arc<dyn Context>,
    webhooks: &[Webhook],
    (request, subject): (&Request, &Subject<'_>),
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut concerned = Vec::new();
    let mut calls = Vec::new();
    for webhook in webhooks {
        if let Some(Pending { call, uid, .. }) = pending(context, webhook, (request, subject))? {
            concerned.push((webhook, uid));
            calls.push(call);
        }
    }
    if calls.is_empty() {
        return Ok(());
    }
    for ((webhook, uid), response) in concerned.into_iter().zip(context.registry().network().call(calls)) {
        if let Some(answer) = accepted(webhook, &uid, response, false)? {
            warnings.extend(answer.warnings);
            if let Some(refusal) = answer.refusal {
                return Err(refusal);
            }
        }
    }
    Ok(())
}

/// The answer of a webhook that may change the object; `None` if the request does not concern it, or if its failure does
/// not matter.
fn ask(
    context: &Arc<dyn Context>,
    webhook: &Webhook,
    request: (&Request, &Subject<'_>),
) -> Result<Option<(Answer, Option<Equivalent>)>, ApiError> {
    let Some(Pending { call, uid, equivalent }) = pending(context, webhook, request)? else {
        return Ok(None);
    };
    match context.registry().network().call(vec![call]).pop() {
        Some(response) => {
            let answer = accepted(webhook, &uid, response, true)?;
            Ok(answer.map(|answer| (answer, equivalent)))
        }
        None => Ok(None),
    }
}

/// The call that a request makes necessary; `None` if it does not concern the webhook.
fn pending(
    context: &Arc<dyn Context>,
    webhook: &Webhook,
    (request, subject): (&Request, &Subject<'_>),
) -> Result<Option<Pending>, ApiError> {
    let Some(seen) = matched(&webhook.constraints, context.registry(), request, subject)? else {
        return Ok(None);
    };
    let equivalent = Equivalent::of(context.registry(), request, &seen.1);
    let objects = Seen::of(equivalent.as_ref(), subject)?;
    let subject = &objects.subject(subject);
    if webhook.error.is_some() || webhook.conditions.iter().next().is_some() {
        let values = Values::of(context, request, subject, &seen);
        let holds = match &webhook.error {
            Some(why) => Err(why.clone()),
            None => hold(&webhook.conditions, &values),
        };
        match holds {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if !webhook.fails_closed => return Ok(None),
            Err(why) => return Err(forbidden(request, subject, &why, Reason::Forbidden)),
        }
    }
    let uid = context.uid();
    let question = review::question(request, subject, &seen, (&webhook.review_version, &uid));
    Ok(Some(Pending {
        call: Call {
            client: webhook.client.clone(),
            timeout: Duration::from_secs(webhook.timeout),
            body: question.to_string().into_bytes(),
        },
        uid,
        equivalent,
    }))
}

/// The answer in a response; `None` for a failure that does not matter.
fn accepted(
    webhook: &Webhook,
    uid: &str,
    response: Result<Vec<u8>, NoAnswer>,
    can_patch: bool,
) -> Result<Option<Answer>, ApiError> {
    let name = &webhook.name;
    let read = |body: Vec<u8>| {
        let body =
            json::parse(&body).map_err(|error| format!("failed to call webhook: the response is not JSON: {error}"))?;
        review::answer(&body, name, (&webhook.review_version, uid), can_patch)
    };
    match response
        .map_err(|error| format!("failed to call webhook: {error}"))
        .and_then(read)
    {
        Ok(answer) => Ok(Some(answer)),
        Err(why) => failed(webhook, &why),
    }
}

/// What follows from a failed call: an error, or nothing.
fn failed<T>(webhook: &Webhook, why: &str) -> Result<Option<T>, ApiError> {
    let name = &webhook.name;
    if webhook.fails_closed {
        return Err(ApiError::internal(format!("failed calling webhook {name:?}: {why}")));
    }
    tracing::warn!(webhook = %name, why, "a failed call of a webhook is ignored");
    Ok(None)
}

/// The object with the patch of an answer; `None` if nothing changes. Adds warnings.
fn patched(
    webhook: &Webhook,
    answer: Answer,
    (subject, equivalent): (&Subject<'_>, Option<Equivalent>),
    warnings: &mut Vec<String>,
) -> Result<Option<Value>, ApiError> {
    warnings.extend(answer.warnings);
    if let Some(refusal) = answer.refusal {
        return Err(refusal);
    }
    let Some((body, type_)) = answer.patch else {
        return Ok(None);
    };
    if json::parse(&body).is_ok_and(|operations| operations == json!([])) {
        return Ok(None);
    }
    let before = match &equivalent {
        Some(equivalent) => equivalent.seen(subject)?[0].take(),
        None => subject.new.cloned(),
    };
    let Some(before) = before else {
        return Err(ApiError::internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            webhook.name
        )));
    };
    if type_ != "JSONPatch" {
        return failed(webhook, &format!("unsupported patch type {type_:?}"));
    }
    let mut after = before.clone();
    patch::json(&mut after, &body).map_err(|error| ApiError::internal(error.message))?;
    if !after.is_object() {
        return Err(ApiError::internal(format!(
            "admission webhook {:?} replaced the object by a value that is no object",
            webhook.name
        )));
    }
    match equivalent {
        _ if after == before => Ok(None),
        Some(equivalent) => equivalent.requested(&after).map(Some),
        None => Ok(Some(after)),
    }
}
