//! Forwards requests to the API servers of other group versions.

use std::sync::Arc;
use std::time::Duration;

use http::header;
use http::{HeaderValue, Response, StatusCode};

use super::{Arrival, Body, relay, text_response};
use crate::api_services::{Registration, name_user};
use crate::identity::Identity;
use crate::inner::Inner;

/// After this time without a response the client gets an error.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Inner {
    /// The registration of the server to which a request must be forwarded.
    pub(super) fn registration(&self, arrival: &Arrival) -> Option<Arc<Registration>> {
        if self.registry.clock().is_simulated() {
            return None;
        }
        let (group, version) = group_version(arrival.parts.uri.path())?;
        self.api_services.find(self.registry.store(), group, version)
    }

    /// Forwards a request, with the name of the user instead of credentials.
    pub(super) async fn forward(&self, arrival: &Arrival, user: &Identity, to: &Registration) -> Response<Body> {
        let place = self.registry.network().place(&to.service);
        let (Ok(place), true) = (place, to.is_available) else {
            return unavailable("service unavailable");
        };
        let path = arrival.parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = relay::request(arrival, &to.host(), path);
        name_user(request.headers_mut(), user);
        let exchange = async {
            let connection = self.api_services.connect(to, place, self.authority.as_ref()).await?;
            self.relay(arrival, connection, request).await
        };
        match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(Ok(response)) => response,
            Ok(Err(why)) => unavailable(&format!("error trying to reach service: {why}")),
            Err(_) => unavailable("error trying to reach service: context deadline exceeded"),
        }
    }
}

/// The group and version of a path of resources, or of their OpenAPI document.
fn group_version(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix("/openapi/v3").unwrap_or(path);
    let mut segments = path
        .strip_prefix("/apis/")?
        .split('/')
        .filter(|segment| !segment.is_empty());
    Some((segments.next()?, segments.next()?))
}

/// A text, as kube-aggregator responds.
fn unavailable(why: &str) -> Response<Body> {
    let mut response = text_response(StatusCode::SERVICE_UNAVAILABLE.as_u16(), &format!("{why}\n"));
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/apis/example.com/v1", Some(("example.com", "v1")))]
    #[case("/apis/example.com/v1/namespaces/x/things/y/a/b", Some(("example.com", "v1")))]
    #[case("/openapi/v3/apis/example.com/v1", Some(("example.com", "v1")))]
    #[case("/apis/example.com", None)]
    #[case("/api/v1/pods", None)]
    fn a_path_belongs_to_a_group_version(#[case] path: &str, #[case] expected: Option<(&str, &str)>) {
        assert_eq!(group_version(path), expected);
    }
}
