//! Sends commands and receives answers and events: JSON texts that end with a zero byte.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// How long one command may take: longer than a page waits for a condition.
const LIMIT: Duration = Duration::from_secs(180);

/// Receivers of what the browser sends.
#[derive(Default)]
struct Waiting {
    next: u64,
    answers: BTreeMap<u64, Sender<Value>>,
    events: BTreeMap<String, Sender<Value>>,
}

/// A connection to a browser; clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    input: Arc<Mutex<ChildStdin>>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Connection {
    /// Communicates over the pipes of a process.
    pub(crate) fn new(input: ChildStdin, output: ChildStdout) -> Self {
        let waiting = Arc::<Mutex<Waiting>>::default();
        let receivers = Arc::clone(&waiting);
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(message) = message else { break };
                let message: Value = serde_json::from_slice(&message).expect("the browser sends JSON");
                deliver(&receivers, message);
            }
            // The calls in progress fail, because their channels close.
            *receivers.lock() = Waiting::default();
        });
        let input = Arc::new(Mutex::new(input));
        Self { input, waiting }
    }

    /// Performs a command, in a session with a page if one is given.
    ///
    /// # Panics
    /// When the browser refuses it, ends, or does not answer.
    pub(crate) fn call(&self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        let mut message = json!({ "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let (sender, receiver) = channel();
        {
            let mut waiting = self.waiting.lock();
            waiting.next += 1;
            message["id"] = waiting.next.into();
            let id = waiting.next;
            waiting.answers.insert(id, sender);
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        self.input.lock().write_all(&text).expect("the browser runs");
        let answer = receiver.recv_timeout(LIMIT);
        let answer = answer.unwrap_or_else(|error| panic!("the browser does not answer {method}: {error}"));
        if let Some(error) = answer.get("error") {
            panic!("the browser refuses {method}: {error}");
        }
        answer["result"].clone()
    }

    /// The events of a session from now on.
    pub(crate) fn events(&self, session: &str) -> Receiver<Value> {
        let (sender, receiver) = channel();
        self.waiting.lock().events.insert(session.to_owned(), sender);
        receiver
    }
}

/// Passes a message to its receiver.
fn deliver(waiting: &Mutex<Waiting>, message: Value) {
    let mut waiting = waiting.lock();
    if let Some(id) = message["id"].as_u64() {
        if let Some(receiver) = waiting.answers.remove(&id) {
            let _ = receiver.send(message);
        }
        return;
    }
    if let Some(receiver) = message["sessionId"]
        .as_str()
        .and_then(|session| waiting.events.get(session))
    {
        let _ = receiver.send(message);
    }
}
