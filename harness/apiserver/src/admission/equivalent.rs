//! Objects in the version for which a policy or webhook has a rule, if that is another one than that of the request.

use serde_json::Value;

use super::request::Request;
use crate::policies::Target;
use crate::registry::{Entry, Registry};
use crate::reviewer::Subject;
use crate::status::ApiError;

/// A conversion between the version of a request and the one that a policy or webhook sees.
#[derive(Debug)]
pub(crate) struct Equivalent {
    seen: Entry,
    requested: Entry,
}

impl Equivalent {
    /// `None` if the version of the request is seen, and for subresources with objects of their own.
    pub(super) fn of(registry: &Registry, request: &Request, seen: &Target) -> Option<Self> {
        let target = &request.target;
        if (&target.group, &target.version) == (&seen.group, &seen.version) {
            return None;
        }
        let catalog = registry.catalog();
        let requested = catalog.find(&target.group, &target.version, &target.resource)?;
        let seen = catalog.find(&seen.group, &seen.version, &target.resource)?;
        (request.kind.kind == requested.resource.kind).then(|| Self {
            seen: seen.clone(),
            requested: requested.clone(),
        })
    }

    /// The new and the old object as the policy or webhook sees them.
    ///
    /// # Errors
    /// 500 if the conversion fails.
    pub(super) fn seen(&self, subject: &Subject<'_>) -> Result<[Option<Value>; 2], ApiError> {
        let convert = |object: Option<&Value>| {
            let converted = object.map(|object| converted(object, &self.requested, &self.seen));
            converted.transpose()
        };
        Ok([convert(subject.new)?, convert(subject.old)?])
    }

    /// Whether a policy can change an object. As upstream, a policy cannot that sees a built-in kind in another version.
    ///
    /// # Errors
    /// The message of upstream.
    pub(super) fn check_changes(&self) -> Result<(), String> {
        let Entry { resource: seen, .. } = &self.seen;
        match &seen.versions {
            Some(_) => Ok(()),
            None => Err(format!(
                "converting ({}.{kind}) to ({}.{kind}): unknown conversion",
                seen.version,
                self.requested.resource.version,
                kind = seen.kind
            )),
        }
    }

    /// An object of the policy or webhook in the version of the request.
    ///
    /// # Errors
    /// 500 if the conversion fails.
    pub(super) fn requested(&self, object: &Value) -> Result<Value, ApiError> {
        converted(object, &self.seen, &self.requested)
    }
}

/// The objects of a subject in another version; `None`: in the version of the request.
pub(super) struct Seen(Option<[Option<Value>; 2]>);

impl Seen {
    /// The objects as a policy or webhook sees them. `equivalent`: the conversion, if it sees another version.
    ///
    /// # Errors
    /// 500 if the conversion fails.
    pub(super) fn of(equivalent: Option<&Equivalent>, subject: &Subject<'_>) -> Result<Self, ApiError> {
        let objects = equivalent.map(|equivalent| equivalent.seen(subject));
        objects.transpose().map(Self)
    }

    /// The subject with these objects.
    pub(super) fn subject<'a>(&'a self, subject: &Subject<'a>) -> Subject<'a> {
        match &self.0 {
            Some([new, old]) => Subject {
                new: new.as_ref(),
                old: old.as_ref(),
                ..*subject
            },
            None => Subject { ..*subject },
        }
    }
}

/// An object of one version in another one.
fn converted(object: &Value, from: &Entry, to: &Entry) -> Result<Value, ApiError> {
    let Some(versions) = &to.resource.versions else {
        let mut object = object.clone();
        from.convert_to_stored(&mut object);
        to.convert_from_stored(&mut object);
        return Ok(object);
    };
    let converted = versions.convert_whole(vec![object.clone()], &to.resource.api_version())?;
    let converted = converted.into_iter().next();
    converted.ok_or_else(|| ApiError::internal("a conversion has no result"))
}
