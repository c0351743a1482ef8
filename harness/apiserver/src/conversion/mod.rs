//! The versions of a custom resource, and how its objects are converted between them: by name only, or by a webhook.
//!
//! As upstream, a stored object is pruned and gets the defaults of the version in which it is stored, is converted, and
//! is pruned to the version that is requested.

mod parts;
mod review;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use parts::parts;

use crate::network::{Call, Client, Network};
use crate::schema::{StructuralSchema, TooLarge};
use crate::selectable::Selectable;
use crate::status::ApiError;

/// The timeout of a conversion.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A conversion that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversionError {
    /// An object has a version that its definition does not have.
    #[error("request to convert CR from an invalid group/version: {0}")]
    Unknown(String),
    /// No version of the review is known.
    #[error("no supported conversion review versions")]
    NoReviewVersion,
    /// The webhook failed; it was asked to convert that kind.
    #[error("conversion webhook for {kind} {why}")]
    Webhook {
        /// `example.com/v1, Kind=Widget`.
        kind: String,
        /// `failed: ...` or `returned ...`.
        why: String,
    },
    /// A patch or a webhook replaced the object by another value.
    #[error("a converted object must be a JSON object")]
    NoObject,
    /// The defaults of the schema are too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

impl From<ConversionError> for ApiError {
    fn from(error: ConversionError) -> Self {
        Self {
            unconverted: true,
            ..Self::new(500, "", error.to_string())
        }
    }
}

/// How objects of one version become those of another.
#[derive(Clone, Debug, PartialEq)]
enum Strategy {
    /// Only the name of the version changes.
    None,
    /// A webhook converts. `review`: the version of the questions, if one is known.
    Webhook { client: Client, review: Option<String> },
}

/// All versions of a custom resource, also those that are not served.
#[derive(Debug)]
pub struct Versions {
    kind: String,
    /// The `apiVersion` in which objects are stored.
    storage: String,
    /// By `apiVersion`.
    schemas: BTreeMap<String, Arc<StructuralSchema>>,
    strategy: Strategy,
    /// The fields of stored objects that clients can select.
    selectable: Vec<Selectable>,
    /// Objects with later revisions conform to the schemas, and were indexed by the selectable fields.
    since: u64,
    network: Arc<Network>,
}

impl Versions {
    /// The versions of a kind. `conversion` is that of the definition, which has that revision.
    pub(crate) fn new(
        (kind, storage): (String, String),
        schemas: BTreeMap<String, Arc<StructuralSchema>>,
        conversion: &Value,
        revision: u64,
        network: Arc<Network>,
    ) -> Self {
        let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
        let strategy = match conversion.get("strategy").and_then(Value::as_str) {
            Some("Webhook") => Strategy::Webhook {
                client: Client::read(webhook.get("clientConfig").unwrap_or(&Value::Null)),
                review: review::version(webhook),
            },
            _ => Strategy::None,
        };
        Self {
            kind,
            storage,
            schemas,
            strategy,
            selectable: Vec::new(),
            since: revision,
            network,
        }
    }

    /// The versions with these selectable fields of stored objects.
    pub(crate) fn with_selectable(mut self, fields: Vec<Selectable>) -> Self {
        self.selectable = fields;
        self
    }

    /// Keeps the time of the last change if these versions do not differ from the previous ones.
    pub(crate) fn after(mut self, previous: &Self) -> Self {
        let same_schemas = self.schemas.len() == previous.schemas.len()
            && self
                .schemas
                .iter()
                .zip(&previous.schemas)
                .all(|((version, schema), (old_version, old_schema))| {
                    version == old_version && schema.raw() == old_schema.raw()
                });
        let same_storage = self.storage == previous.storage && self.selectable == previous.selectable;
        if same_schemas && same_storage && self.strategy == previous.strategy {
            self.since = previous.since;
        }
        self
    }

    /// The `apiVersion` in which objects are stored.
    pub(crate) fn storage(&self) -> &str {
        &self.storage
    }

    /// The fields of stored objects that clients can select; none if the version in which they are stored is not served.
    pub(crate) fn selectable(&self) -> &[Selectable] {
        &self.selectable
    }

    /// Objects with later revisions conform to the schemas.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Stored objects in that version.
    pub(crate) fn decode(&self, mut objects: Vec<Value>, version: &str) -> Result<Vec<Value>, ConversionError> {
        for object in &mut objects {
            let schema = self.schema(version_of(object))?;
            schema.prune(object);
            schema.default(object)?;
        }
        self.convert(objects, version)
    }

    /// An object in the version in which it is stored, with the defaults of that version.
    pub(crate) fn encode(&self, object: &Value) -> Result<Value, ConversionError> {
        let converted = self.convert(vec![object.clone()], &self.storage)?;
        let mut stored = converted.into_iter().next().unwrap_or_default();
        self.schema(&self.storage)?.default(&mut stored)?;
        Ok(stored)
    }

    /// The fields of an object of another version that a version does not have, as paths.
    pub(crate) fn undeclared(&self, object: &Value, version: &str) -> Vec<String> {
        match self.schema(version) {
            Ok(schema) => schema.prune(&mut object.clone()),
            // A version that the definition does not have any more has no rules.
            Err(_) => Vec::new(),
        }
    }

    /// Whether objects keep their fields in other versions.
    pub(crate) fn keeps_fields(&self) -> bool {
        !self.has_webhook()
    }

    /// Whether a webhook converts.
    pub(crate) fn has_webhook(&self) -> bool {
        matches!(self.strategy, Strategy::Webhook { .. })
    }

    /// Objects of any versions in that version, with the fields that it has.
    pub(crate) fn convert(&self, objects: Vec<Value>, version: &str) -> Result<Vec<Value>, ConversionError> {
        let schema = self.schema(version)?;
        let mut converted = self.convert_whole(objects, version)?;
        for object in &mut converted {
            schema.prune(object);
        }
        Ok(converted)
    }

    /// Objects of any versions in that version, also with fields that it does not have: admission sees them so, and a
    /// conversion there and back loses nothing.
    pub(crate) fn convert_whole(&self, objects: Vec<Value>, version: &str) -> Result<Vec<Value>, ConversionError> {
        self.schema(version)?;
        let mut converted = match &self.strategy {
            Strategy::None => objects,
            Strategy::Webhook { client, review } => self.ask(objects, version, client, review.as_deref())?,
        };
        for object in &mut converted {
            if version_of(object) != version {
                let members = object.as_object_mut().ok_or(ConversionError::NoObject)?;
                members.insert("apiVersion".to_owned(), version.into());
            }
        }
        Ok(converted)
    }

    fn schema(&self, version: &str) -> Result<&StructuralSchema, ConversionError> {
        let found = self.schemas.get(version);
        found
            .map(AsRef::as_ref)
            .ok_or_else(|| ConversionError::Unknown(version.to_owned()))
    }

    /// Lets the webhook convert the objects that have another version.
    fn ask(
        &self,
        mut objects: Vec<Value>,
        version: &str,
        client: &Client,
        review: Option<&str>,
    ) -> Result<Vec<Value>, ConversionError> {
        let others = objects.iter_mut().filter(|object| version_of(object) != version);
        for part in parts(others.collect()) {
            self.ask_part(part, version, client, review)?;
        }
        Ok(objects)
    }

    /// Lets the webhook convert some objects in one call.
    fn ask_part(
        &self,
        mut objects: Vec<&mut Value>,
        version: &str,
        client: &Client,
        review: Option<&str>,
    ) -> Result<(), ConversionError> {
        let from = objects.first().map(|first| version_of(first)).unwrap_or_default();
        let kind = format!("{from}, Kind={}", self.kind);
        // As upstream, which stores no revision in the object, a webhook does not get one.
        let revisions: Vec<Option<Value>> = objects.iter_mut().map(|object| take_revision(object)).collect();
        let failed = |why: String| ConversionError::Webhook {
            kind: kind.clone(),
            why,
        };
        let review = review.ok_or(ConversionError::NoReviewVersion)?;
        let uid = self.network.uid();
        let question = review::question((review, &uid), version, &objects);
        let answers = self.network.call(vec![Call {
            client: client.clone(),
            timeout: TIMEOUT,
            body: question.to_string().into_bytes(),
        }]);
        let answer = answers.into_iter().next().transpose();
        let body = answer
            .map_err(|error| failed(format!("failed: {error}")))?
            .unwrap_or_default();
        let converted = review::answer(&body, (review, &uid), objects.len()).map_err(failed)?;
        for ((original, mut converted), revision) in objects.into_iter().zip(converted).zip(revisions) {
            review::check((original, &mut converted), version, &self.kind).map_err(failed)?;
            if let (Some(revision), Some(metadata)) = (revision, converted["metadata"].as_object_mut()) {
                metadata.insert("resourceVersion".to_owned(), revision);
            }
            *original = converted;
        }
        Ok(())
    }
}

fn take_revision(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("resourceVersion")
}

fn version_of(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
}
