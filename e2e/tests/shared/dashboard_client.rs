//! A client of a dashboard over plain HTTP, for the test programs `it` and `images`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a dashboard may be silent: a restart of mcm in a cluster takes many seconds.
const SILENCE: Duration = Duration::from_mins(2);

/// A client with the cookie of a page.
pub(crate) struct DashboardClient {
    address: String,
    cookie: String,
}

impl DashboardClient {
    /// Logs in at the address that follows `before` in a printed text.
    pub(crate) fn log_in(printed: &str, before: &str) -> Self {
        let url = printed.split(before).nth(1).unwrap().lines().next().unwrap();
        let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut client = Self {
            address: address.to_owned(),
            cookie: String::new(),
        };
        let (head, _) = client.request(&format!("GET /{path}"), "");
        let cookie = head.split("set-cookie: ").nth(1).unwrap();
        client.cookie = cookie.split(';').next().unwrap().to_owned();
        client
    }

    /// Sends a request. Returns the connection.
    pub(crate) fn send(&self, line: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\nx-drydock-request: 1\r\ncookie: {}\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.cookie,
            body.len(),
            address = self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends a request. Returns the head and the body of the response.
    pub(crate) fn request(&self, line: &str, body: &str) -> (String, String) {
        let mut answer = String::new();
        self.send(line, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}
