//! Errors: their codes and their texts.

use k8s_openapi::ByteString;
use mcm_api::keys;
use mcm_driver::Code;
use serde_json::json;

use super::{Stop, Verdict};
use crate::session::name_of;
use crate::{CallError, Inputs, Session};

/// Codes for input that no repetition makes valid. Others make `mcm` repeat the call soon, or blame the cloud.
const INVALID: [Code; 3] = [Code::InvalidArgument, Code::FailedPrecondition, Code::OutOfRange];

pub(super) async fn invalid_class(session: &Session) -> Verdict {
    let mut inputs = session.inputs.clone();
    inputs.class.provider_spec = json!("not a provider spec");
    match session.create_with(&session.machine(), &inputs).await {
        Ok(vm) => {
            return Err(Stop::Failed(format!(
                "CreateMachine created {} from a provider spec that is a string, not an object",
                name_of(&vm)
            )));
        }
        Err(error) => check_code(&error)?,
    }
    // A driver may have defaults for everything.
    inputs.class.provider_spec = json!({});
    match session.create_with(&session.machine(), &inputs).await {
        Ok(_) => Ok(()),
        Err(error) => check_code(&error),
    }
}

pub(super) async fn other_provider(session: &Session) -> Verdict {
    let mut inputs = session.inputs.clone();
    inputs.class.provider = Some(session.other_name());
    match session.create_with(&session.machine(), &inputs).await {
        Ok(vm) => Err(Stop::Failed(format!(
            "CreateMachine created {} from a class of another provider",
            name_of(&vm)
        ))),
        Err(error) => check_code(&error),
    }
}

fn check_code(error: &CallError) -> Verdict {
    if error.code().is_some_and(|code| INVALID.contains(&code)) {
        return Ok(());
    }
    Err(Stop::Failed(format!("{error}; expected the code InvalidArgument")))
}

/// Provokes errors with invalid classes and Secrets.
pub(super) async fn secrets(session: &Session) -> Verdict {
    let mut errors = 0;
    for inputs in suspicious_inputs(session) {
        for error in failures(session, &inputs).await {
            errors += 1;
            let text = error.to_string();
            let key = session
                .exposed_key(&text, &inputs.secret)
                .or_else(|| session.exposed_key(&text, &session.inputs.secret));
            if let (Some(key), CallError::Failed { call, error }) = (key, &error) {
                return Err(Stop::Failed(format!(
                    "the error of {call} ({}) contains the value of the Secret's key {key}",
                    error.code
                )));
            }
        }
    }
    match errors {
        0 => Err(Stop::Skipped(
            "no call failed with an invalid class or Secret, so there is no error text".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Inputs that a driver should refuse: valid and invalid Secrets with invalid classes, and invalid Secrets with the
/// valid class. Invalid Secrets contain values that appear in no other text.
fn suspicious_inputs(session: &Session) -> Vec<Inputs> {
    let valid = &session.inputs;
    let marked = |key: &str| ByteString(format!("secret-value-of-{key}-{}", session.other_name()).into_bytes());
    let user_data = (keys::USER_DATA_KEY.to_owned(), marked(keys::USER_DATA_KEY));

    let mut invalid_secret = valid.clone();
    for (key, value) in &mut invalid_secret.secret {
        *value = marked(key);
    }
    invalid_secret.secret.extend([user_data.clone()]);
    // Without the credentials, so that a driver that looks for them may print what it has.
    let mut incomplete_secret = valid.clone();
    incomplete_secret.secret = [user_data].into();

    let mut all = Vec::new();
    for inputs in [valid, &invalid_secret] {
        for invalid_spec in [json!("not a provider spec"), json!({})] {
            let mut invalid_class = inputs.clone();
            invalid_class.class.provider_spec = invalid_spec;
            all.push(invalid_class);
        }
        let mut other_provider = inputs.clone();
        other_provider.class.provider = Some(session.other_name());
        all.push(other_provider);
    }
    all.extend([invalid_secret, incomplete_secret]);
    all
}

async fn failures(session: &Session, inputs: &Inputs) -> Vec<CallError> {
    let machine = session.machine();
    [
        session.create_with(&machine, inputs).await.err(),
        session.status_with(&machine, inputs).await.err(),
        session.initialize_with(&machine, inputs).await.err(),
        session.list_with(inputs).await.err(),
        session.delete_with(&machine, inputs).await.err(),
    ]
    .into_iter()
    .flatten()
    .filter(|error| !error.is_unimplemented())
    .collect()
}
