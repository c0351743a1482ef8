//! Marks requests and calls with the name of their process in virtual time, where all processes share accounts and
//! transports.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::USER_AGENT;
use http::{HeaderValue, Request};
use tower::Service;

/// Appends a process's name to the user agent of a request: `machine-controller-manager/1.0 (mcm-0)`.
pub(super) fn name_agent<B>(mut request: Request<B>, name: &str) -> Request<B> {
    let agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    let named = format!("{} ({name})", agent.unwrap_or_default());
    if let Ok(named) = HeaderValue::from_str(named.trim_start()) {
        request.headers_mut().insert(USER_AGENT, named);
    }
    request
}

/// A pattern that matches the user agents of the process `name`.
pub(super) fn agents_named(name: &str) -> String {
    format!("*({name})")
}

/// The driver's server, which logs `client` as the caller.
#[derive(Clone, Debug)]
pub(super) struct Calling<S> {
    inner: S,
    client: String,
}

impl<S> Calling<S> {
    pub(super) fn new(inner: S, client: String) -> Self {
        Self { inner, client }
    }
}

impl<S, R> Service<R> for Calling<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        Box::pin(fakecloud::calling_as(self.client.clone(), self.inner.call(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_appended_to_the_user_agent() {
        let request = Request::builder().header(USER_AGENT, "mcm/1.0").body(()).unwrap();
        let agent = |request: Request<()>| request.headers()[USER_AGENT].to_str().unwrap().to_owned();
        assert_eq!(agent(name_agent(request, "mcm-0")), "mcm/1.0 (mcm-0)");
        assert_eq!(agent(name_agent(Request::new(()), "mcm-0")), "(mcm-0)");
        assert!(apiserver::faults::Pattern::new(agents_named("mcm-0")).matches("mcm/1.0 (mcm-0)"));
    }
}
