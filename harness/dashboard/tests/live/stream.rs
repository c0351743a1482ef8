//! Server-sent events: after an interruption nothing is missing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::Clock;
use scenario::cloud::VmState;

use crate::world::{Live, machine, node, observe, small_world, vm_event};

/// A proxy of a dashboard, whose connections can be cut. The page keeps its address.
struct Cuttable {
    port: u16,
    cut: Arc<AtomicBool>,
    connections: Arc<parking_lot::Mutex<Vec<TcpStream>>>,
}

impl Cuttable {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let (cut, connections) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(parking_lot::Mutex::new(Vec::new())),
        );
        let (is_cut, open) = (Arc::clone(&cut), Arc::clone(&connections));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                open.lock()
                    .extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (up, down) = (
                    (client.try_clone().unwrap(), server.try_clone().unwrap()),
                    (server, client),
                );
                // The server expects its own name.
                std::thread::spawn(move || copy(up.0, up.1, Some((own, port))));
                std::thread::spawn(move || copy(down.0, down.1, None));
            }
        });
        Self {
            port: own,
            cut,
            connections,
        }
    }

    fn set_cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
        if cut {
            for connection in self.connections.lock().drain(..) {
                let _ = connection.shutdown(std::net::Shutdown::Both);
            }
        }
    }
}

/// Copies until one side closes; replaces a port in what passes.
fn copy(mut from: TcpStream, mut to: TcpStream, rename: Option<(u16, u16)>) {
    let mut buffer = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut bytes = buffer[..count].to_vec();
        if let (Some((own, port)), Ok(text)) = (rename, String::from_utf8(bytes.clone())) {
            bytes = text
                .replace(&format!("127.0.0.1:{own}"), &format!("127.0.0.1:{port}"))
                .into_bytes();
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_page_resumes_after_its_connection_was_lost() {
    let Some(live) = Live::unopened(true, small_world) else {
        return;
    };
    let port = live.origin().rsplit(':').next().unwrap().parse().unwrap();
    let proxy = Cuttable::to(port);
    let url = live.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port));
    live.page.open_url(&url);
    live.page
        .wait("document.getElementById('connection').textContent === 'live'");
    live.page.eval("(() => { const apply = drydock.world.apply.bind(drydock.world); window.got = []; drydock.world.apply = (changes) => { got.push(changes.all); apply(changes); }; })()");

    proxy.set_cut(true);
    live.page
        .wait("document.getElementById('connection').classList.contains('lost')");
    observe(&live.world, node("pool-5-1", "z1", "Unknown"));
    observe(&live.world, vm_event("pool-5-2", "z2", VmState::Terminated));
    observe(&live.world, machine("later", None, "Pending"));
    proxy.set_cut(false);
    live.page
        .wait("document.getElementById('connection').textContent === 'live'");
    live.page
        .wait("document.getElementById('problems').textContent.includes('pool-5-1 NotReady')");
    live.page
        .wait("drydock.world.entities.has('Machine/default/later') && !drydock.world.entities.has('VM/vm-pool-5-2')");
    // It named the last change that it had, and got only what came after it.
    let got = live.page.eval("got");
    assert_eq!(
        got.as_array().unwrap().iter().filter(|all| **all == true).count(),
        0,
        "{got}"
    );
}

#[test]
fn a_page_that_names_a_change_of_another_world_gets_everything() {
    let Some(live) = Live::open() else { return };
    let first = live.page.eval(
        "(async () => { const answer = await fetch('/api/events', { headers: { 'last-event-id': '999999' } }); const reader = answer.body.getReader(); let text = ''; \
         while (!text.includes('data: ')) text += new TextDecoder().decode((await reader.read()).value); await reader.cancel(); return text; })()",
    );
    let text = first.as_str().unwrap();
    assert!(
        text.starts_with("retry: 500\n\n") && text.contains("\"all\":true"),
        "{text}"
    );
}

#[test]
fn the_server_knows_how_many_pages_are_open() {
    let Some(live) = Live::open() else { return };
    let second = browser::shared().unwrap().page();
    second.open_url(&live.url);
    second.wait("document.getElementById('connection').textContent === 'live'");
    observe(&live.world, machine("seen", None, "Pending"));
    for page in [&live.page, &second] {
        page.wait("drydock.world.entities.has('Machine/default/seen')");
    }
    pages_become(&live, 2);
    drop(second);
    pages_become(&live, 1);
}

/// Waits until that many pages are open.
fn pages_become(live: &Live, count: usize) {
    let become_so = async {
        while live.readers.count() != count {
            live.readers.changed().await;
        }
    };
    let waited = live
        .runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(120), become_so).await });
    assert!(waited.is_ok(), "{} pages are open, not {count}", live.readers.count());
}

#[test]
fn the_timeline_grows_and_keeps_the_chosen_range() {
    let Some(live) = Live::open() else { return };
    observe(&live.world, machine("m-1", None, "Unknown"));
    live.page
        .wait("document.getElementById('list').textContent.includes('Running -> Unknown')");
    let (left, top, width, height) = live.page.place_of("#overview");
    live.page.drag(
        (left + width * 0.1, top + height / 2.0),
        (left + width * 0.4, top + height / 2.0),
    );
    live.page.frame();
    let range = live.page.text("document.querySelector('#tools .range').textContent");
    let head = live.page.text("document.getElementById('list-head').textContent");
    assert!(head.contains("in the run"), "{head}");
    observe(&live.world, machine("m-1", None, "Failed"));
    live.page.wait(&format!(
        "document.getElementById('list-head').textContent !== {head:?}"
    ));
    live.page.frame();
    let later = live.page.text("document.querySelector('#tools .range').textContent");
    assert!(range.contains(" to ") && later == range, "{range} became {later}");
    live.page.press("f");
    live.page
        .wait("document.getElementById('list').textContent.includes('Unknown -> Failed')");
    assert_eq!(live.page.complaints(), Vec::<String>::new());
}

#[test]
fn the_selected_event_stays_selected_when_an_earlier_one_arrives() {
    let Some(live) = Live::open() else { return };
    let before = Clock::wall().now();
    observe(&live.world, machine("m-1", None, "Unknown"));
    live.page
        .wait("document.getElementById('list').textContent.includes('Running -> Unknown')");
    live.page.eval(
        "[...document.querySelectorAll('#list [role=option]')].find((row) => row.textContent.includes('Running -> Unknown')).click()",
    );
    live.page.frame();
    let heading = || live.page.text("document.querySelector('#detail h2').textContent");
    let (selected, number) = (heading(), number_in(&heading()));
    live.world.lock().observe(before, machine("m-2", None, "Unknown"));
    live.page.wait(&format!(
        "document.querySelector('#detail h2').textContent !== {selected:?}"
    ));
    assert_eq!(number_in(&heading()), number + 1);
    let detail = live.page.text("document.getElementById('detail').textContent");
    assert!(detail.contains("m-1 phase Running -> Unknown"), "{detail}");
}

/// The number of the event with this heading.
fn number_in(heading: &str) -> u32 {
    let (number, _) = heading.strip_prefix("Event ").unwrap().split_once(": ").unwrap();
    number.parse().unwrap()
}
