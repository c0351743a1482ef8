//! Somebody who has a role of `deploy/rbac` for people and nothing else: the harness speaks for a service account.

use http::HeaderValue;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use crate::deploy;

/// The service account.
const ACCOUNT: &str = "consumer";
/// Its role, without the namespace that its name begins with.
const ROLE: &str = "preservation-consumer";

/// A client that speaks for a service account with the role of consumers, and for nobody else.
///
/// # Errors
/// When the role cannot be given to it.
pub(super) async fn client(client: &Client, namespace: &str) -> Result<Client, String> {
    deploy::apply(client, &[binding(namespace)]).await?;
    let user = format!("system:serviceaccount:{namespace}:{ACCOUNT}");
    let user = HeaderValue::try_from(user).map_err(|error| error.to_string())?;
    let ours = client.clone();
    let service = service_fn(move |mut request: http::Request<Body>| {
        let ours = ours.clone();
        request.headers_mut().insert("impersonate-user", user.clone());
        async move { ours.send(request).await }
    });
    Ok(Client::new(service, namespace))
}

fn binding(namespace: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": format!("{namespace}:{ACCOUNT}") },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": format!("{namespace}:{ROLE}"),
        },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace }],
    })
}

/// What came of a step that may be refused.
pub(super) fn judged(done: Result<(), String>, refused: bool) -> Result<(), String> {
    match done {
        Ok(()) if refused => Err("it was done, and ought to be refused".to_owned()),
        Err(reason) if refused && reason.contains("forbidden") => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_from_other_failures() {
        let forbidden = || Err("nodes \"a\" is forbidden: no rule".to_owned());
        assert!(judged(forbidden(), true).is_ok() && judged(forbidden(), false).is_err());
        assert!(judged(Ok(()), true).is_err() && judged(Ok(()), false).is_ok());
        assert!(judged(Err("not found".to_owned()), true).is_err());
    }
}
