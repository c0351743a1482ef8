//! Finds and starts the browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::json;

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
/// ends when they close. Then the shell removes its files: the test program may have ended before. Processes of the browser that
/// end later may still write some.
const WITH_PIPES: &str = r#"
    profile=$1; shift
    trap : INT TERM HUP
    "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null
    for pause in 0 0.1 0.3 1 3; do sleep $pause; rm -rf "$profile" 2>/dev/null && break; done
"#;
/// Environment variables that say that cases must not be skipped.
const REQUIRED_BY: [&str; 2] = ["CI", "DRYDOCK_NEEDS_BROWSER"];

/// A running browser.
pub struct Browser {
    connection: Connection,
}

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").finish_non_exhaustive()
    }
}

impl Browser {
    /// Starts the browser.
    fn start(program: &Path, profile: &Path) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", WITH_PIPES, "sh"])
            .arg(profile)
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
            // Several pages are open at the same time, and each of them counts as visible.
            .args([
                "--disable-background-timer-throttling",
                "--disable-backgrounding-occluded-windows",
                "--disable-renderer-backgrounding",
            ])
            .args([
                "--force-color-profile=srgb",
                "--font-render-hinting=none",
                "--lang=en-US",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .env("HOME", profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let connection = Connection::new(input.expect("a pipe"), output.expect("a pipe"));
        // Waits for the process, so that it does not stay as a zombie.
        std::thread::spawn(move || child.wait());
        let browser = Self { connection };
        browser.connection.call(None, "Browser.getVersion", json!({}));
        browser
    }

    /// An empty page with its own cookies.
    pub fn page(&self) -> Page {
        Page::open(self.connection.clone())
    }
}

/// The program of the browser.
fn found() -> Option<PathBuf> {
    PROGRAMS.iter().find_map(|program| which::which(program).ok())
}

/// A folder for the browser's files.
fn profile() -> PathBuf {
    tempfile::tempdir().expect("a folder for the browser's files").keep()
}

/// The browser of this test program; `None`: this machine has none, and the case is skipped. The reason is printed.
///
/// # Panics
/// When there is none in CI, where no case may be skipped.
pub fn shared() -> Option<&'static Browser> {
    static SHARED: OnceLock<Option<Browser>> = OnceLock::new();
    let browser = SHARED.get_or_init(|| found().map(|program| Browser::start(&program, &profile())));
    if browser.is_none() {
        skip();
    }
    browser.as_ref()
}

/// Prints why a case is skipped.
///
/// # Panics
/// In CI.
fn skip() {
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_browser_that_ends_leaves_no_files() {
        let Some(program) = found() else { return skip() };
        let profile = profile();
        let browser = Browser::start(&program, &profile);
        drop(browser.page());
        assert!(profile.is_dir());
        drop(browser);
        let begin = Instant::now();
        while profile.exists() {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "{} is left",
                profile.display()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
