//! Compression of large responses, as kube-apiserver does it.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue, Response};

use super::Body;

/// Larger bodies are compressed; in bytes.
const THRESHOLD: usize = 128 * 1024;

/// Compresses a large response if the client accepts gzip.
pub(super) fn compress(request: &HeaderMap, response: &mut Response<Body>) {
    let Some(bytes) = response.body().as_whole().filter(|bytes| bytes.len() > THRESHOLD) else {
        return;
    };
    if !accepts_gzip(request) {
        return;
    }
    // Writing to memory does not fail.
    let Ok(compressed) = gzip(bytes) else { return };
    *response.body_mut() = Body::whole(compressed);
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// Whether a token of the first header is `gzip`; one with a quality is not, as upstream.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.split(',').any(|token| token.trim() == "gzip"))
}

fn gzip(bytes: &Bytes) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::go("gzip", THRESHOLD + 1, true)]
    #[case::several("br, gzip , deflate", THRESHOLD + 1, true)]
    #[case::small("gzip", THRESHOLD, false)]
    #[case::quality("gzip;q=1.0", THRESHOLD + 1, false)]
    #[case::other("br", THRESHOLD + 1, false)]
    fn large_bodies_are_compressed_for_clients_that_accept_it(
        #[case] accepted: &'static str,
        #[case] size: usize,
        #[case] expected: bool,
    ) {
        let mut request = HeaderMap::new();
        request.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        let mut response = Response::new(Body::whole(vec![b'x'; size]));
        compress(&request, &mut response);
        assert_eq!(response.headers().contains_key(CONTENT_ENCODING), expected);
        if expected {
            let mut text = Vec::new();
            let body = response.body().as_whole().unwrap().clone();
            GzDecoder::new(body.as_ref()).read_to_end(&mut text).unwrap();
            assert_eq!(text.len(), size);
        }
    }
}
