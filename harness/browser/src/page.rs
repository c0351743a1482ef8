//! A page: what it contains, what it requests, and what it prints to the console.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::connection::Connection;

/// How long a condition of a page may take to become true: large worlds are slow without optimizations on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The error of requests that the browser aborts because an interface of the machine appeared or disappeared, for example that of a
/// container. It says nothing about the page or the server.
const NETWORK_CHANGED: &str = "net::ERR_NETWORK_CHANGED";

/// A request of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The address.
    pub url: String,
}

/// What a page did so far.
#[derive(Clone, Debug, Default)]
struct Log {
    complaints: Vec<String>,
    requests: Vec<Request>,
    /// The number of complete loads.
    loads: usize,
    /// The number of requests that failed with [`NETWORK_CHANGED`].
    aborted: usize,
}

/// A page of the browser, which is closed when dropped.
pub struct Page {
    connection: Connection,
    session: String,
    target: String,
    context: String,
    events: Mutex<Receiver<Value>>,
    log: Mutex<Log>,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Page {
    /// An empty page with its own cookies.
    pub(crate) fn open(connection: Connection) -> Self {
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let context = connection.call(None, "Target.createBrowserContext", json!({}));
        let context = text(&context, "browserContextId");
        let created = json!({ "url": "about:blank", "browserContextId": context, "width": 1280, "height": 900 });
        let target = text(&connection.call(None, "Target.createTarget", created), "targetId");
        let attached = json!({ "targetId": target, "flatten": true });
        let session = text(&connection.call(None, "Target.attachToTarget", attached), "sessionId");
        let events = Mutex::new(connection.events(&session));
        let page = Self {
            connection,
            session,
            target,
            context,
            events,
            log: Mutex::default(),
        };
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.resize(1280, 900);
        page
    }

    /// Performs a command of the protocol.
    ///
    /// # Panics
    /// When the browser refuses it.
    pub fn call(&self, method: &str, parameters: Value) -> Value {
        self.connection.call(Some(&self.session), method, parameters)
    }

    /// Sets the size of the page in CSS pixels.
    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Emulates `screen` or `print`, and features such as `prefers-color-scheme`.
    pub fn media(&self, media: &str, features: &[(&str, &str)]) {
        let features: Vec<Value> = features
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "media": media, "features": features }),
        );
    }

    /// Opens an address, and waits until it is loaded.
    ///
    /// # Panics
    /// When it cannot be loaded.
    pub fn open_url(&self, url: &str) {
        let failed = self.try_open(url);
        assert!(failed.is_none(), "{url}: {failed:?}");
    }

    /// Opens an address. Returns the error of a connection that fails.
    ///
    /// If a change of the machine's network aborts the page or a part of it, the page is opened again.
    ///
    /// # Panics
    /// When it does not load in time.
    pub fn try_open(&self, url: &str) -> Option<String> {
        self.receive();
        let before = self.log.lock().clone();
        let end = Instant::now() + LIMIT;
        loop {
            let error = self.navigate(url);
            self.receive();
            let is_aborted = error.as_deref() == Some(NETWORK_CHANGED) || self.log.lock().aborted > before.aborted;
            if !is_aborted || Instant::now() > end {
                return error;
            }
            // Else an address with a fragment is not loaded again.
            self.navigate("about:blank");
            self.receive();
            self.log.lock().clone_from(&before);
        }
    }

    /// Opens an address once. Returns the error of a connection that fails.
    fn navigate(&self, url: &str) -> Option<String> {
        let loads = self.log.lock().loads;
        let answer = self.call("Page.navigate", json!({ "url": url }));
        if let Some(error) = answer["errorText"].as_str() {
            return Some(error.to_owned());
        }
        // Without a loader, only the fragment changes.
        if answer.get("loaderId").is_some() {
            self.until(&format!("{url} is loaded"), |log| log.loads > loads);
        }
        None
    }

    /// The value of an expression; promises are awaited.
    ///
    /// # Panics
    /// When it throws.
    pub fn eval(&self, expression: &str) -> Value {
        let call =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let answer = self.call("Runtime.evaluate", call);
        if let Some(exception) = answer.get("exceptionDetails") {
            panic!("{expression}: {}", exception["exception"]["description"]);
        }
        answer["result"]["value"].clone()
    }

    /// The text of an expression.
    ///
    /// # Panics
    /// When it is no text.
    pub fn text(&self, expression: &str) -> String {
        let value = self.eval(expression);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{expression} is {value}"))
            .to_owned()
    }

    /// Waits until an expression is true. It is evaluated once per frame.
    ///
    /// # Panics
    /// When it does not become true.
    pub fn wait(&self, condition: &str) {
        let millis = LIMIT.as_millis();
        let poll = format!(
            "new Promise((resolve) => {{ const end = performance.now() + {millis}; const look = () => {{ \
               let value = false; try {{ value = ({condition}); }} catch {{ }} \
               if (value) resolve(true); else if (performance.now() > end) resolve(false); else setTimeout(look, 10); \
             }}; look(); }})"
        );
        if self.eval(&poll) != true {
            self.receive();
            panic!(
                "{condition} does not become true; the page says {:?}",
                self.log.lock().complaints
            );
        }
    }

    /// Waits for the frames in which a change becomes visible.
    pub fn frame(&self) {
        self.eval("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))))");
    }

    /// Errors and warnings that the page printed, exceptions, and requests that were blocked.
    pub fn complaints(&self) -> Vec<String> {
        self.receive();
        self.log.lock().complaints.clone()
    }

    /// All requests of the page.
    pub fn requests(&self) -> Vec<Request> {
        self.receive();
        self.log.lock().requests.clone()
    }

    /// The names of all elements for screen readers, with their roles: `heading: Verdict`.
    pub fn accessible_names(&self) -> Vec<String> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
        let named = nodes.iter().filter(|node| node["ignored"] != true).map(|node| {
            let part = |field: &str| node[field]["value"].as_str().unwrap_or_default();
            format!("{}: {}", part("role"), part("name"))
        });
        named.collect()
    }

    /// A picture of the visible part, as PNG in Base64.
    ///
    /// # Panics
    /// When the browser makes none.
    pub fn screenshot(&self) -> String {
        self.frame();
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        answer["data"].as_str().expect("a picture").to_owned()
    }

    /// The printed page as PDF.
    ///
    /// # Panics
    /// When the browser makes none.
    pub fn pdf(&self) -> Vec<u8> {
        let answer = self.call("Page.printToPDF", json!({ "printBackground": true }));
        STANDARD
            .decode(answer["data"].as_str().expect("a document"))
            .expect("Base64")
    }

    /// Waits until the log of events satisfies a condition.
    fn until(&self, what: &str, condition: impl Fn(&Log) -> bool) {
        let end = Instant::now() + LIMIT;
        loop {
            self.receive();
            if condition(&self.log.lock()) {
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            let event = self.events.lock().recv_timeout(left);
            let event = event.unwrap_or_else(|_| panic!("{what}: this does not happen"));
            self.log.lock().add(&event);
        }
    }

    /// Takes the events that have arrived.
    fn receive(&self) {
        let events = self.events.lock();
        let mut log = self.log.lock();
        events.try_iter().for_each(|event| log.add(&event));
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // A case that fails because the browser ended must not panic twice.
        if !std::thread::panicking() {
            self.connection
                .call(None, "Target.closeTarget", json!({ "targetId": self.target }));
            let context = json!({ "browserContextId": self.context });
            self.connection.call(None, "Target.disposeBrowserContext", context);
        }
    }
}

impl Log {
    fn add(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loads += 1,
            "Network.loadingFailed" if parameters["errorText"] == NETWORK_CHANGED => self.aborted += 1,
            "Runtime.exceptionThrown" => {
                let details = &parameters["exceptionDetails"];
                self.complaints.push(format!(
                    "exception: {} {}",
                    details["text"], details["exception"]["description"]
                ));
            }
            "Runtime.consoleAPICalled"
                if ["error", "warning", "assert"]
                    .iter()
                    .any(|kind| parameters["type"] == *kind) =>
            {
                self.complaints.push(format!("console: {}", parameters["args"]));
            }
            "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                self.complaints.push(format!("log: {}", parameters["entry"]["text"]));
            }
            "Network.requestWillBeSent" => self.requests.push(Request {
                method: parameters["request"]["method"].as_str().unwrap_or_default().to_owned(),
                url: parameters["request"]["url"].as_str().unwrap_or_default().to_owned(),
            }),
            _ => {}
        }
    }
}
