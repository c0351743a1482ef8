//! Decides whether a request may read or change anything.
//!
//! The page is for the user who started the world. Other pages of that user's browser can send requests to loopback as well,
//! also under a name of their own that resolves to it, so that a request must show the secret and come from the page itself.

use http::{HeaderMap, StatusCode};

/// The name of the cookie.
pub(crate) const COOKIE: &str = "drydock-dashboard";
/// The header that a page of another origin cannot send without permission.
pub(crate) const CSRF_HEADER: &str = "x-drydock-request";

/// The secret of a dashboard.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A new secret.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0_u8; 24];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The text, for the URL and the cookie.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text is the secret; takes as long for each text of its length.
    fn is(&self, text: &str) -> bool {
        text.len() == self.0.len()
            && text
                .bytes()
                .zip(self.0.bytes())
                .fold(0, |found, (one, other)| found | (one ^ other))
                == 0
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the request names another host: open the URL that `drydock` printed")]
    Host,
    #[error("the dashboard's secret is missing: open the URL that `drydock` printed, which ends with ?token=…")]
    Secret,
    #[error("the request does not come from the dashboard's page")]
    Origin,
    #[error("the dashboard is read-only: restart `drydock up` or `drydock play` with --buttons to inject faults")]
    ReadOnly,
}

impl Refusal {
    /// The status code of the response.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Secret => StatusCode::UNAUTHORIZED,
            Self::Origin | Self::ReadOnly => StatusCode::FORBIDDEN,
        }
    }
}

/// What requests must have.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    token: Token,
    port: u16,
    /// Whether faults may be injected.
    pub(crate) buttons: bool,
}

impl Guard {
    pub(crate) fn new(token: Token, port: u16, buttons: bool) -> Self {
        Self { token, port, buttons }
    }

    /// Checks the host that a request names. A name of another page that resolves to loopback is refused.
    pub(crate) fn host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = single(headers, "host").ok_or(Refusal::Host)?;
        self.hosts()
            .iter()
            .any(|own| own == host)
            .then_some(())
            .ok_or(Refusal::Host)
    }

    /// Checks the secret in the query of the first request.
    pub(crate) fn is_secret(&self, text: &str) -> bool {
        self.token.is(text)
    }

    /// The cookie for a browser that showed the secret.
    pub(crate) fn cookie(&self) -> String {
        format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie_name(),
            self.token.as_str()
        )
    }

    /// Cookies do not differ by port: the name does, so that two dashboards do not replace each other's.
    fn cookie_name(&self) -> String {
        format!("{COOKIE}-{}", self.port)
    }

    /// Whether a request may read.
    pub(crate) fn read(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        self.host(headers)?;
        let cookies = headers.get_all("cookie").iter().filter_map(|value| value.to_str().ok());
        let name = self.cookie_name();
        let has_secret = cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .any(|(found, value)| found == name && self.token.is(value));
        if !has_secret {
            return Err(Refusal::Secret);
        }
        // A page of another site may not read by a script either.
        match single(headers, "sec-fetch-site") {
            Some("cross-site" | "same-site") => Err(Refusal::Origin),
            _ => Ok(()),
        }
    }

    /// Whether a request may be a POST: a preview of a fault, or a command to a played world.
    pub(crate) fn post(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        self.read(headers)?;
        let origin = single(headers, "origin").and_then(|origin| origin.strip_prefix("http://"));
        let is_own = origin.is_some_and(|origin| self.hosts().iter().any(|own| own == origin));
        match is_own && headers.contains_key(CSRF_HEADER) {
            true => Ok(()),
            false => Err(Refusal::Origin),
        }
    }

    /// Whether a request may inject a fault.
    pub(crate) fn change(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        self.post(headers)?;
        self.buttons.then_some(()).ok_or(Refusal::ReadOnly)
    }

    fn hosts(&self) -> [String; 2] {
        [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)]
    }
}

/// The value of a header that occurs once.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| {
                (
                    name.parse().unwrap(),
                    value.replace("SECRET", "5ec7e7").parse().unwrap(),
                )
            })
            .collect()
    }

    fn guard(buttons: bool) -> Guard {
        Guard::new(Token("5ec7e7".to_owned()), 8080, buttons)
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8080");
    const OWN_COOKIE: (&str, &str) = ("cookie", "a=b; drydock-dashboard-8080=SECRET");
    const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:8080");
    const OWN: (&str, &str) = (CSRF_HEADER, "1");

    #[rstest]
    #[case::own(&[HOST, OWN_COOKIE, ORIGIN, OWN], Ok(()))]
    #[case::localhost(&[("host", "localhost:8080"), OWN_COOKIE, ("origin", "http://localhost:8080"), OWN], Ok(()))]
    #[case::no_host(&[OWN_COOKIE, ORIGIN, OWN], Err(Refusal::Host))]
    #[case::two_hosts(&[HOST, ("host", "evil.example"), OWN_COOKIE, ORIGIN, OWN], Err(Refusal::Host))]
    #[case::rebinding(&[("host", "evil.example:8080"), OWN_COOKIE, ("origin", "http://evil.example:8080"), OWN], Err(Refusal::Host))]
    #[case::other_port(&[("host", "127.0.0.1:8081"), OWN_COOKIE, ORIGIN, OWN], Err(Refusal::Host))]
    #[case::no_cookie(&[HOST, ORIGIN, OWN], Err(Refusal::Secret))]
    #[case::wrong_cookie(&[HOST, ("cookie", "drydock-dashboard-8080=5ec7e8"), ORIGIN, OWN], Err(Refusal::Secret))]
    #[case::part_of_the_cookie(&[HOST, ("cookie", "drydock-dashboard-8080=5ec7"), ORIGIN, OWN], Err(Refusal::Secret))]
    #[case::cookie_of_another_dashboard(&[HOST, ("cookie", "drydock-dashboard-8081=SECRET"), ORIGIN, OWN], Err(Refusal::Secret))]
    #[case::no_origin(&[HOST, OWN_COOKIE, OWN], Err(Refusal::Origin))]
    #[case::null_origin(&[HOST, OWN_COOKIE, ("origin", "null"), OWN], Err(Refusal::Origin))]
    #[case::other_origin(&[HOST, OWN_COOKIE, ("origin", "http://evil.example"), OWN], Err(Refusal::Origin))]
    #[case::https_origin(&[HOST, OWN_COOKIE, ("origin", "https://127.0.0.1:8080"), OWN], Err(Refusal::Origin))]
    #[case::a_form(&[HOST, OWN_COOKIE, ORIGIN], Err(Refusal::Origin))]
    #[case::another_site(&[HOST, OWN_COOKIE, ORIGIN, OWN, ("sec-fetch-site", "cross-site")], Err(Refusal::Origin))]
    fn only_the_page_itself_may_change_the_world(
        #[case] list: &[(&'static str, &str)],
        #[case] expected: Result<(), Refusal>,
    ) {
        assert_eq!(guard(true).change(&headers(list)), expected);
    }

    #[test]
    fn without_buttons_the_page_only_reads() {
        let own = headers(&[HOST, OWN_COOKIE, ORIGIN, OWN]);
        assert_eq!(guard(false).read(&own), Ok(()));
        assert_eq!(guard(false).post(&own), Ok(()));
        assert_eq!(guard(false).change(&own), Err(Refusal::ReadOnly));
    }

    #[test]
    fn tokens_differ_and_are_not_printed() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert!(one != other && one.as_str().len() == 48);
        assert_eq!(format!("{one:?}"), "Token(…)");
    }
}
