//! Other pages and other hosts get nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use rstest::rstest;

use crate::world::{Live, small_world};

/// Sends the text of a request unchanged. Returns the response.
fn raw(live: &Live, request: &str) -> String {
    let address = live.origin().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.replace("OWN", address).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[rstest]
#[case::no_secret("GET / HTTP/1.1\r\nhost: OWN\r\nconnection: close\r\n\r\n", "401")]
#[case::no_secret_for_data("GET /api/state HTTP/1.1\r\nhost: OWN\r\nconnection: close\r\n\r\n", "401")]
#[case::no_secret_for_events("GET /api/events HTTP/1.1\r\nhost: OWN\r\nconnection: close\r\n\r\n", "401")]
#[case::no_secret_for_assets("GET /assets/live.js HTTP/1.1\r\nhost: OWN\r\nconnection: close\r\n\r\n", "401")]
#[case::wrong_secret("GET /?token=0123 HTTP/1.1\r\nhost: OWN\r\nconnection: close\r\n\r\n", "401")]
#[case::another_name(
    "GET /?token=0123 HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n",
    "421"
)]
#[case::no_name("GET / HTTP/1.0\r\n\r\n", "421")]
#[case::another_method("DELETE /api/faults HTTP/1.1\r\nhost: OWN\r\nconnection: close\r\n\r\n", "405")]
#[case::no_secret_for_faults(
    "POST /api/faults HTTP/1.1\r\nhost: OWN\r\norigin: http://OWN\r\nx-drydock-request: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    "401"
)]
fn a_request_without_the_secret_or_of_another_host_gets_nothing(#[case] request: &str, #[case] status: &str) {
    let Some(live) = Live::unopened(true, small_world) else {
        return;
    };
    let answer = raw(&live, request);
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status}")) || answer.starts_with(&format!("HTTP/1.0 {status}")),
        "{answer}"
    );
    assert!(
        !answer.contains("pool") && !answer.to_lowercase().contains("set-cookie"),
        "{answer}"
    );
}

#[test]
fn the_cookie_and_the_headers_of_the_page_are_strict() {
    let Some(live) = Live::unopened(true, small_world) else {
        return;
    };
    let token = live.url.rsplit('=').next().unwrap();
    let answer = raw(
        &live,
        &format!("GET /?token={token} HTTP/1.1\r\nhost: OWN\r\nconnection: close\r\n\r\n"),
    )
    .to_lowercase();
    for part in [
        "http/1.1 303",
        "httponly",
        "samesite=strict",
        "location: /\r\n",
        "content-security-policy: default-src 'self'",
        "frame-ancestors 'none'",
        "nosniff",
        "no-store",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
}

/// A page of another site, on another port of loopback.
fn foreign_site(html: String) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                html.len()
            );
            let _ = stream.write_all(format!("{head}{html}").as_bytes());
        }
    });
    format!("http://{address}/")
}

#[test]
fn a_page_of_another_site_cannot_inject_a_fault_or_read_anything() {
    let Some(live) = Live::open() else { return };
    let origin = live.origin().to_owned();
    let body = r#"{"fault":"vm.kill","targets":["m-1"]}"#;
    let script = format!(
        "const body = '{body}'; const tries = [\
           fetch('{origin}/api/faults', {{ method: 'POST', mode: 'no-cors', credentials: 'include', body }}),\
           fetch('{origin}/api/faults', {{ method: 'POST', credentials: 'include', headers: {{ 'x-drydock-request': '1' }}, body }}),\
           fetch('{origin}/api/state', {{ credentials: 'include' }}).then((answer) => answer.text())];\
         const sent = new Promise((resolve) => {{ document.getElementById('there').onload = resolve; }});\
         Promise.allSettled(tries).then(async (ends) => {{ await sent; document.title = ends.map((end) => end.status + (end.value?.type ?? '')).join(' '); }});"
    );
    let form = format!(
        "<form id=f method=post enctype=text/plain action='{origin}/api/faults' target=there><input name='{body}' value=''></form><iframe id=there name=there></iframe><iframe src='{origin}/'></iframe>"
    );
    let url = foreign_site(format!(
        "<!doctype html><title>waiting</title>{form}<script>{script} document.getElementById('f').submit();</script>"
    ));
    // In the same browser profile, where the cookie is. The title changes when all requests have their responses.
    live.page.open_url(&url);
    live.page
        .wait("document.title.startsWith('fulfilled') || document.title.startsWith('rejected')");
    assert_eq!(live.page.text("document.title"), "rejected rejected rejected");
    assert!(live.cloud.performed.lock().is_empty());
}

#[test]
fn another_name_for_loopback_is_refused_by_the_browser_test_of_dns_rebinding() {
    let Some(live) = Live::open() else { return };
    // A site whose name resolves to loopback: browsers resolve every name below localhost so.
    let port = live.origin().rsplit(':').next().unwrap();
    let token = live.url.rsplit('=').next().unwrap();
    live.page
        .open_url(&format!("http://evil.localhost:{port}/?token={token}"));
    let text = live.page.text("document.body.innerText");
    assert!(text.contains("names another host"), "{text}");
    let answers = live.page.eval(
        "(async () => { const all = []; for (const path of ['/', '/api/state', '/api/plan']) { const answer = await fetch(path); all.push(answer.status); } \
         const post = await fetch('/api/faults', { method: 'POST', headers: { 'x-drydock-request': '1' }, body: '{\"fault\":\"vm.kill\",\"targets\":[\"m-1\"]}' }); all.push(post.status); return all; })()",
    );
    assert_eq!(answers, serde_json::json!([421, 421, 421, 421]));
    assert!(live.cloud.performed.lock().is_empty());
}

#[test]
fn a_large_or_broken_request_is_refused() {
    let Some(live) = Live::open() else { return };
    let status = |body: &str| {
        live.page.eval(&format!(
            "(async () => (await fetch('/api/faults', {{ method: 'POST', headers: {{ 'x-drydock-request': '1' }}, body: {body} }})).status)()"
        ))
    };
    assert_eq!(status("'x'.repeat(100000)"), 413);
    assert_eq!(status("'{'"), 400);
    assert_eq!(status("'{\"fault\":\"vm.kill\",\"shell\":\"rm\"}'"), 400);
    assert_eq!(status("'{\"fault\":\"vm.melt\"}'"), 422);
}
