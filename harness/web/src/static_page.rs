//! Pages without scripts: the frame, the style sheet and a body.

/// The frame, with a line for each part that is put into it.
pub(crate) const STATIC_SHELL: &str = include_str!("../assets/static.html");
/// The style sheet of the report, and what these pages add to it.
const THEME: &str = include_str!("../assets/theme.css");
/// What these pages add.
pub(crate) const STATIC_STYLE: &str = include_str!("../assets/static.css");

/// A page without scripts.
pub(crate) struct StaticPage<'a> {
    /// Its title as a text.
    pub(crate) title: &'a str,
    /// Its body as HTML.
    pub(crate) body: &'a str,
}

/// The page as one HTML file.
pub(crate) fn rendered(page: &StaticPage<'_>) -> String {
    let title = crate::escape::escaped(page.title);
    let style = format!("{THEME}{STATIC_STYLE}");
    crate::page::filled(
        STATIC_SHELL,
        &[("{{title}}", &title), ("{{style}}", &style), ("{{body}}", page.body)],
    )
}
