//! Finds and starts the browser.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::json;
use tempfile::TempDir;

use crate::connection::Connection;
use crate::page::Page;

/// Programs that can be used, the preferred one first. The first is a package of Debian without anything that a window
/// needs.
const PROGRAMS: [&str; 5] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// Passes the pipes of standard input and output as the descriptors 3 and 4, which the browser uses for the protocol. It
/// ends when they close.
const WITH_PIPES: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"#;
/// Environment variables that say that cases must not be skipped.
const REQUIRED_BY: [&str; 2] = ["CI", "DRYDOCK_NEEDS_BROWSER"];

/// A running browser.
pub struct Browser {
    connection: Connection,
    // Its files.
    _profile: TempDir,
}

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").finish_non_exhaustive()
    }
}

impl Browser {
    /// Starts the browser.
    fn start(program: &PathBuf) -> Self {
        let profile = tempfile::tempdir().expect("a folder for the browser's files");
        let mut child = Command::new("sh")
            .args(["-c", WITH_PIPES, "sh"])
            .arg(program)
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--disable-gpu",
                "--no-first-run",
            ])
            // Tests may run as root, where the sandbox does not work.
            .args(["--no-sandbox", "--hide-scrollbars", "--disable-dev-shm-usage"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .args([
                "--force-color-profile=srgb",
                "--font-render-hinting=none",
                "--lang=en-US",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let connection = Connection::new(input.expect("a pipe"), output.expect("a pipe"));
        // Waits for the process, so that it does not stay as a zombie.
        std::thread::spawn(move || child.wait());
        let browser = Self {
            connection,
            _profile: profile,
        };
        browser.connection.call(None, "Browser.getVersion", json!({}));
        browser
    }

    /// An empty page with its own cookies.
    pub fn page(&self) -> Page {
        Page::open(self.connection.clone())
    }
}

/// The browser of this test program; `None`: this machine has none, and the case is skipped. The reason is printed.
///
/// # Panics
/// When there is none in CI, where no case may be skipped.
pub fn shared() -> Option<&'static Browser> {
    static SHARED: OnceLock<Option<Browser>> = OnceLock::new();
    let browser = SHARED.get_or_init(|| {
        let found = PROGRAMS.iter().find_map(|program| which::which(program).ok());
        found.map(|program| Browser::start(&program))
    });
    if browser.is_none() {
        let required = REQUIRED_BY
            .iter()
            .find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
        if let Some(required) = required {
            panic!(
                "no browser is installed and {required} is set: `apt-get install chromium-headless-shell`, or another of {PROGRAMS:?}"
            );
        }
        println!("skipped: no browser is installed; Debian has chromium-headless-shell");
    }
    browser.as_ref()
}
