//! Lists: selection, consistent pages, and continue tokens.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Entry, ListOptions, ListRevision, Registry};
use crate::status::ApiError;
use crate::store::{Key, Lost, Object, Scope};

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The revision of the whole list.
    pub revision: u64,
    /// The objects, by namespace and name.
    pub objects: Vec<Arc<Object>>,
    /// The start of the next page; `None` on the last page.
    pub continue_token: Option<String>,
    /// The number of remaining objects, if known.
    pub remaining: Option<usize>,
}

impl Registry {
    /// Lists one namespace or all objects. The revision in the options must already exist.
    ///
    /// # Errors
    /// 400 for an invalid token, 410 if the history no longer covers the revision, with a token that continues at the
    /// newest revision.
    pub fn list(&self, entry: &Entry, namespace: Option<&str>, options: &ListOptions) -> Result<Page, ApiError> {
        let mut scope = Scope {
            namespace: namespace.map(str::to_owned),
            after: None,
        };
        let mut revision = match options.revision {
            ListRevision::Exact(revision) => Some(revision),
            ListRevision::Newest | ListRevision::NotOlderThan(_) => None,
        };
        if let Some(token) = &options.continue_token {
            let token = Token::parse(token)?;
            scope.after = Some(token.key(namespace));
            revision = token.revision;
        }
        let listing = self
            .store
            .list(&entry.table, &scope, revision)
            .map_err(|lost| match lost {
                Lost::Gone => ApiError::not_found(&entry.resource, ""),
                Lost::Compacted => expired(options, &scope),
            })?;
        let selected =
            |object: &Arc<Object>| options.labels.matches(&object.meta.labels) && options.fields.matches(object);
        let limit = match options.revision {
            ListRevision::NotOlderThan(0) => 0,
            _ => options.limit,
        };
        let mut objects = entry.shown_all(listing.objects)?;
        let everything = options.labels.is_empty() && options.fields.is_empty();
        if !everything {
            objects.retain(selected);
        }
        let mut page = Page {
            revision: listing.revision,
            objects: Vec::new(),
            continue_token: None,
            remaining: None,
        };
        if limit > 0 && objects.len() > limit {
            page.remaining = everything.then(|| objects.len().saturating_sub(limit));
            objects.truncate(limit);
            let last = objects.last().map(|object| object.key.clone()).unwrap_or_default();
            page.continue_token = Some(Token::behind(Some(listing.revision), &last, namespace).text());
        }
        page.objects = objects;
        Ok(page)
    }
}

fn expired(options: &ListOptions, scope: &Scope) -> ApiError {
    match (&options.continue_token, &scope.after) {
        (Some(_), Some(after)) => {
            let mut error = ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new \
                 list without the continue parameter, or use the continue token in this response to retrieve the \
                 remainder of the results. Continuing with the provided token results in an inconsistent list - \
                 objects that were created, modified, or deleted between the time the first chunk was returned and \
                 now may show up in the list.",
            );
            error.continue_token = Some(Token::behind(None, after, scope.namespace.as_deref()).text());
            error
        }
        _ => ApiError::expired("The resourceVersion for the provided list is too old."),
    }
}

/// The end of a page. In the text, `rv` -1 means: continue at the newest revision.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    revision: Option<u64>,
    /// The key after the list's prefix: `namespace/name`, or the name only.
    start: String,
}

impl Token {
    fn behind(revision: Option<u64>, key: &Key, namespace: Option<&str>) -> Self {
        let start = match namespace {
            None if !key.namespace.is_empty() => format!("{}/{}", key.namespace, key.name),
            _ => key.name.clone(),
        };
        Self { revision, start }
    }

    fn key(&self, namespace: Option<&str>) -> Key {
        match (namespace, self.start.split_once('/')) {
            (Some(namespace), _) => Key::new(namespace, &self.start),
            (None, Some((namespace, name))) => Key::new(namespace, name),
            (None, None) => Key::new("", &self.start),
        }
    }

    fn text(&self) -> String {
        let revision = self.revision.map_or(Value::from(-1), Value::from);
        let token = json!({ "v": TOKEN_VERSION, "rv": revision, "start": format!("{}\0", self.start) });
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn parse(text: &str) -> Result<Self, ApiError> {
        let invalid =
            |why: &str| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|error| invalid(&error.to_string()))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
        if token.get("v").and_then(Value::as_str) != Some(TOKEN_VERSION) {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let revision = match token.get("rv").and_then(Value::as_i64) {
            Some(-1) => None,
            Some(revision) if revision > 0 => Some(revision.unsigned_abs()),
            _ => return Err(invalid("incorrect encoded start resourceVersion")),
        };
        let start = token
            .get("start")
            .and_then(Value::as_str)
            .and_then(|start| start.strip_suffix('\0'));
        match start {
            Some(start) if !start.is_empty() => Ok(Self {
                revision,
                start: start.to_owned(),
            }),
            _ => Err(invalid("incorrect encoded start key")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_round_trips_through_its_text_form() {
        for (revision, namespace) in [(Some(1007), None), (None, Some("default"))] {
            let key = Key::new("default", "web");
            let token = Token::behind(revision, &key, namespace);
            let parsed = Token::parse(&token.text()).unwrap();
            assert_eq!(parsed, token);
            assert_eq!(parsed.key(namespace), key);
        }
    }

    #[test]
    fn an_invalid_token_is_a_bad_request() {
        for text in ["", "!", "bm9wZQ"] {
            assert_eq!(Token::parse(text).unwrap_err().code, 400);
        }
    }
}
