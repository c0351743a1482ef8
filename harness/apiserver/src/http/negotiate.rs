//! Content negotiation of responses.

use crate::protobuf::response::MEDIA_TYPE;
use crate::status::ApiError;

/// The encoding of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Json,
    /// Protobuf, for built-in kinds and for metadata.
    Protobuf,
}

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The objects as they are.
    Plain,
    /// A Table of that version of `meta.k8s.io`.
    Table(&'static str),
    /// Only the metadata.
    Metadata,
    /// The aggregated discovery document of that version.
    Aggregated(&'static str),
}

/// The forms of an endpoint in addition to plain JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// Tables, and metadata, also in protobuf.
    Objects,
    /// Everything in protobuf, and tables in JSON.
    BuiltIn,
    /// Aggregated discovery.
    Discovery,
}

struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// The first offered form by quality and order, and its encoding. Skips clauses for CBOR: every client that accepts it
/// also accepts JSON.
///
/// # Errors
/// 406 if no clause accepts an offered form.
pub(super) fn negotiate(accept: &str, offer: Offer) -> Result<(Form, Encoding), ApiError> {
    if accept.trim().is_empty() {
        return Ok((Form::Plain, Encoding::Json));
    }
    let mut clauses: Vec<Clause> = accept.split(',').filter_map(clause).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses.iter().find_map(|clause| offered(clause, offer)).ok_or_else(|| {
        ApiError::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        )
    })
}

/// The first offered form, in JSON.
///
/// # Errors
/// 406 if no clause accepts JSON.
pub(super) fn form(accept: &str, offer: Offer) -> Result<Form, ApiError> {
    negotiate(accept, offer).map(|(form, _)| form)
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().filter(|media_type| !media_type.is_empty())?;
    let parameters: Vec<_> = parts
        .filter_map(|part| part.split_once('='))
        .map(|(k, v)| (k.trim(), v.trim()))
        .collect();
    let quality = parameters
        .iter()
        .find(|(name, _)| *name == "q")
        .and_then(|(_, value)| value.parse().ok());
    Some(Clause {
        media_type,
        parameters,
        quality: quality.unwrap_or(1.0),
    })
}

fn offered(clause: &Clause<'_>, offer: Offer) -> Option<(Form, Encoding)> {
    let encoding = match clause.media_type {
        "application/json" | "*/*" => Encoding::Json,
        "application/*" if offer == Offer::Discovery => Encoding::Json,
        MEDIA_TYPE if offer != Offer::Discovery => Encoding::Protobuf,
        _ => return None,
    };
    let parameter = |name: &str| {
        clause
            .parameters
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    };
    let of_objects = matches!(offer, Offer::Objects | Offer::BuiltIn);
    let form = match (parameter("as"), parameter("g"), parameter("v")) {
        (None, _, _) if encoding == Encoding::Json || offer == Offer::BuiltIn => Form::Plain,
        (Some("Table"), Some("meta.k8s.io"), Some(version)) if of_objects && encoding == Encoding::Json => {
            match version {
                "v1" => Form::Table("v1"),
                "v1beta1" => Form::Table("v1beta1"),
                _ => return None,
            }
        }
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), _) if of_objects => {
            Form::Metadata
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some(version)) if offer == Offer::Discovery => {
            match version {
                "v2" => Form::Aggregated("v2"),
                "v2beta1" => Form::Aggregated("v2beta1"),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some((form, encoding))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Offer::Objects, Form::Plain)]
    #[case("application/vnd.kubernetes.protobuf, */*", Offer::Objects, Form::Plain)]
    #[case("application/vnd.kubernetes.protobuf,application/json", Offer::Objects, Form::Plain)]
    #[case(
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        Offer::Objects,
        Form::Table("v1")
    )]
    #[case(
        "application/json;as=Other;v=v1;g=meta.k8s.io,application/json",
        Offer::Objects,
        Form::Plain
    )]
    #[case(
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
         application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        Offer::Objects,
        Form::Metadata
    )]
    #[case(
        "application/json;q=0.5, application/json;as=Table;g=meta.k8s.io;v=v1",
        Offer::Objects,
        Form::Table("v1")
    )]
    #[case(
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
        Offer::Discovery,
        Form::Aggregated("v2")
    )]
    #[case(
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
        Offer::Discovery,
        Form::Aggregated("v2beta1")
    )]
    fn the_first_offered_clause_wins(#[case] accept: &str, #[case] offer: Offer, #[case] expected: Form) {
        assert_eq!(form(accept, offer).unwrap(), expected);
    }

    #[rstest]
    #[case(
        "application/vnd.kubernetes.protobuf,application/json",
        Offer::BuiltIn,
        Form::Plain,
        Encoding::Protobuf
    )]
    #[case(
        "application/vnd.kubernetes.protobuf;stream=watch",
        Offer::BuiltIn,
        Form::Plain,
        Encoding::Protobuf
    )]
    #[case(
        "application/vnd.kubernetes.protobuf;q=0.5,application/json",
        Offer::BuiltIn,
        Form::Plain,
        Encoding::Json
    )]
    #[case(
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        Offer::Objects,
        Form::Metadata,
        Encoding::Protobuf
    )]
    #[case(
        "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
        Offer::BuiltIn,
        Form::Plain,
        Encoding::Json
    )]
    fn built_in_kinds_and_metadata_are_offered_in_protobuf(
        #[case] accept: &str,
        #[case] offer: Offer,
        #[case] form: Form,
        #[case] encoding: Encoding,
    ) {
        assert_eq!(negotiate(accept, offer).unwrap(), (form, encoding));
    }

    #[test]
    fn a_client_that_does_not_accept_json_gets_406() {
        assert_eq!(
            form("application/vnd.kubernetes.protobuf", Offer::Objects)
                .unwrap_err()
                .code,
            406
        );
    }
}
