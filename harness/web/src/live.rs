//! The page of the dashboard, which a server serves together with its modules.

use crate::script::{LIVE_MODULES, MODULES};

/// The frame of the page.
pub(crate) const LIVE_SHELL: &str = include_str!("../assets/live.html");
/// The style sheet of the report, and what the dashboard adds to it.
const STYLES: [(&str, &str); 2] = [
    ("theme.css", include_str!("../assets/theme.css")),
    ("live.css", include_str!("../assets/live.css")),
];

/// A file of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub text: &'static str,
}

/// The page of the dashboard.
pub fn live_page() -> &'static str {
    LIVE_SHELL
}

/// The file of that name, if the dashboard has it.
pub fn asset(name: &str) -> Option<Asset> {
    if let Some((_, text)) = STYLES.iter().find(|(style, _)| *style == name) {
        return Some(Asset {
            media_type: "text/css; charset=utf-8",
            text,
        });
    }
    let module = MODULES.iter().chain(LIVE_MODULES).find(|module| module.name == name)?;
    Some(Asset {
        media_type: "text/javascript; charset=utf-8",
        text: module.text,
    })
}
