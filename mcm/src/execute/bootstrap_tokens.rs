//! The Secrets of bootstrap tokens, with which new nodes join.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::{PostParams, Preconditions};
use mcm_core::machine::{BootstrapToken, TokenOwner};

use super::{ActionExecutor, delete, refused};
use crate::cluster::LeanApi;
use crate::error::{is_already_exists, is_conflict};

const TOKEN_NAMESPACE: &str = "kube-system";

const TOKEN_ALPHABET: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

const TOKEN_LENGTH: usize = 16;

impl ActionExecutor {
    /// Whether a token expires before its machine's creation timeout, for example because the timeout was raised later.
    /// A token without a readable expiration does not expire.
    fn expires_too_early(&self, secret: &Secret, token: &BootstrapToken) -> bool {
        if defect!(ExpiredTokenUsedAgain) {
            return false;
        }
        let expiration = secret.data.as_ref().and_then(|data| data.get("expiration"));
        let expiration = expiration.and_then(|text| std::str::from_utf8(&text.0).ok()?.parse::<Timestamp>().ok());
        expiration.is_some_and(|expiration| expiration < token.needed_until)
    }

    /// Returns the secret part of the token, from a new Secret or from the existing one.
    pub(super) async fn ensure_token(&self, token: &BootstrapToken) -> kube::Result<String> {
        let api: LeanApi<Secret> = LeanApi::namespaced(self.target()?, TOKEN_NAMESPACE);
        let name = token.owner.secret_name();
        let generated = self.tokens.lock().text(TOKEN_LENGTH, TOKEN_ALPHABET);
        let new = token_secret(&name, token, &generated);
        // Most machines have none yet: a read first would be a second request.
        match self.create_token(&api, &new).await {
            Err(error) if is_already_exists(&error) => {}
            created => return created.map(|()| generated),
        }
        let secret = api.get(&name).await?;
        let part = secret_part(&secret, &token.owner)?;
        if !self.expires_too_early(&secret, token) {
            return Ok(part);
        }
        delete(&api, &name, same(&secret), None).await?;
        self.create_token(&api, &new).await.map(|()| generated)
    }

    async fn create_token(&self, api: &LeanApi<Secret>, new: &Secret) -> kube::Result<()> {
        let created = api.create(&PostParams::default(), new).await?;
        let version = Preconditions {
            uid: created.uid(),
            resource_version: created.resource_version(),
        };
        self.created_tokens.lock().insert(created.name_any(), version);
        Ok(())
    }

    /// Deletes the Secret of that machine's token, if it has one.
    pub(super) async fn delete_token(&self, owner: &TokenOwner) -> kube::Result<()> {
        let api: LeanApi<Secret> = LeanApi::namespaced(self.target()?, TOKEN_NAMESPACE);
        let name = owner.secret_name();
        let created = self.created_tokens.lock().get(&name).cloned();
        if let Some(version) = created {
            let deleted = delete(&api, &name, version, None).await;
            // After a conflict the Secret is another one, or changed.
            let is_known = !deleted.as_ref().is_err_and(is_conflict);
            if deleted.is_ok() || !is_known {
                self.created_tokens.lock().remove(&name);
            }
            if is_known {
                return deleted;
            }
        }
        let Some(secret) = api.get_opt(&name).await?.filter(|secret| belongs_to(secret, owner)) else {
            return Ok(());
        };
        delete(&api, &name, same(&secret), None).await
    }
}

fn same(secret: &Secret) -> Preconditions {
    Preconditions {
        uid: secret.uid(),
        resource_version: None,
    }
}

/// Whether the description in a token's Secret identifies that machine.
fn belongs_to(secret: &Secret, owner: &TokenOwner) -> bool {
    let description = secret.data.as_ref().and_then(|data| data.get("description"));
    description.is_some_and(|description| description.0 == owner.description.as_bytes())
}

fn secret_part(secret: &Secret, owner: &TokenOwner) -> kube::Result<String> {
    if !belongs_to(secret, owner) {
        return Err(refused(&format!(
            "the Secret {TOKEN_NAMESPACE}/{} is another machine's bootstrap token; this machine continues when that \
             machine has joined or is deleted, or when you delete a Secret that no machine needs",
            secret.name_any()
        )));
    }
    let part = secret.data.as_ref().and_then(|data| data.get("token-secret"));
    part.and_then(|part| String::from_utf8(part.0.clone()).ok())
        .ok_or_else(|| {
            refused(&format!(
                "the Secret {TOKEN_NAMESPACE}/{} has no token-secret",
                secret.name_any()
            ))
        })
}

fn token_secret(name: &str, token: &BootstrapToken, secret_part: &str) -> Secret {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = [
        ("description", token.owner.description.clone()),
        ("token-id", token.owner.id.clone()),
        ("token-secret", secret_part.to_owned()),
        (
            "expiration",
            token.expiration.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        ),
        ("usage-bootstrap-authentication", "true".to_owned()),
        ("usage-bootstrap-signing", "true".to_owned()),
        ("auth-extra-groups", token.extra_groups.clone()),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(TOKEN_NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("bootstrap.kubernetes.io/token".to_owned()),
        data: Some(
            data.iter()
                .map(|(key, value)| ((*key).to_owned(), bytes(value)))
                .collect(),
        ),
        ..Secret::default()
    }
}
