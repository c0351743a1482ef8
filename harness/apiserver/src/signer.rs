//! Signs and verifies JSON web tokens (RFC 7519). It does not interpret their claims.
//!
//! The algorithm is EdDSA (RFC 8037), whose signatures depend only on key and text, so that a simulated run repeats
//! its tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::keys::TokenSecret;
use crate::status::ApiError;

/// The signing key of one server.
pub(crate) struct Signer {
    key: Ed25519KeyPair,
    key_id: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// A signer with this key.
    ///
    /// # Errors
    /// 500, which indicates a bug.
    pub(crate) fn new(secret: &TokenSecret) -> Result<Self, ApiError> {
        let key = Ed25519KeyPair::from_seed_unchecked(&secret.0).map_err(ApiError::internal)?;
        let key_id = URL_SAFE_NO_PAD.encode(Sha256::digest(key.public_key().as_ref()));
        Ok(Self { key, key_id })
    }

    /// Signs a token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = json!({ "alg": "EdDSA", "kid": self.key_id });
        let [header, claims] = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = format!("{header}.{claims}");
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(text.as_bytes()));
        format!("{text}.{signature}")
    }

    /// The claims of a token; `None` if it is invalid or was signed by another server.
    pub(crate) fn verify(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
        let header = json(header)?;
        if header["alg"] != "EdDSA" || header["kid"] != self.key_id.as_str() {
            return None;
        }
        let public = UnparsedPublicKey::new(&ED25519, self.key.public_key());
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        public.verify(text.as_bytes(), &signature).ok()?;
        json(claims)
    }
}
