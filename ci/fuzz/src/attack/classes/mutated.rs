//! Mutated requests of the fuzz corpus.

use std::sync::LazyLock;

use clock::Stream;

use super::{Hostile, pick};
use crate::{Target, corpus, mutate, parse_request, request_objects, target};

/// A target with its corpus.
type Corpus = (&'static Target, Vec<Vec<u8>>);

/// The targets whose inputs are requests.
static CORPORA: LazyLock<Vec<Corpus>> = LazyLock::new(|| {
    let targets = ["json", "yaml", "protobuf", "patches"].into_iter().filter_map(target);
    targets
        .filter_map(|target| Some((target, corpus::inputs(target).ok()?)))
        .collect()
});

/// The objects that the requests of the corpus refer to.
pub(super) fn prepare() -> Vec<Hostile> {
    request_objects()
        .iter()
        .map(|(path, object)| Hostile::post(path, object))
        .collect()
}

pub(super) fn requests(stream: &mut Stream, round: u64) -> Vec<Hostile> {
    if CORPORA.is_empty() {
        return Vec::new();
    }
    let (target, corpus) = pick(&CORPORA, stream);
    let input = mutate::input(target.form, corpus, target.name, stream.bits(), round);
    let request = parse_request(&input).filter(|request| {
        // A fault rule breaks later requests on purpose, and a watch takes as long as it asks for.
        request.uri().path().starts_with("/api") && request.uri().query().is_none_or(|query| !query.contains("watch"))
    });
    request
        .into_iter()
        .map(|request| Hostile::new(request.map(Into::into)))
        .collect()
}
