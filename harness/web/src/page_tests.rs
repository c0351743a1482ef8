use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use regex::Regex;

use super::*;
use crate::live::LIVE_SHELL;
use crate::script::{LIVE_MODULES, MODULES};
use crate::static_page::{STATIC_SHELL, STATIC_STYLE};

/// A name that does harm in a page that takes it for HTML.
const EVIL: &str = "</script><img src=x onerror=alert(1)>{{data}}";

fn record() -> RunRecord {
    let text = serde_json::json!({
        "version": 1,
        "meta": {
            "drydock": "0", "scenario": EVIL, "stage": "sim", "seed": 7, "plan": EVIL,
            "started": "2030-01-01T00:00:00Z", "lasted": 5_000_000, "wallSeconds": 0.5,
            "verdict": { "passed": false, "sentence": EVIL, "point": 1 }, "replay": EVIL, "causes": "unknown",
        },
        "actors": [{ "id": "scenario", "kind": "scenario", "name": EVIL }], "spans": [], "counters": [], "checks": [],
        "points": [{ "number": 1, "at": 61_500_000, "actor": "scenario", "verb": "verdict", "summary": EVIL }],
    });
    record::read(text.to_string().as_bytes()).unwrap()
}

/// The record in a page.
fn data(page: &str) -> Vec<u8> {
    let (_, rest) = page.split_once("base64\">").unwrap();
    let packed = STANDARD.decode(rest.split('<').next().unwrap()).unwrap();
    let mut text = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut text).unwrap();
    text
}

#[test]
fn a_page_contains_its_record() {
    let record = record();
    let page = page(&record).unwrap();
    assert_eq!(record::read(&data(&page)).unwrap(), record);
    assert!(!page.contains("{{title}}") && !page.contains("{{script}}") && !page.contains("{{style}}"));
}

#[test]
fn texts_of_a_record_cannot_become_elements() {
    let page = page(&record()).unwrap();
    assert!(!page.contains("<img"), "{page}");
    assert_eq!(page.matches("</script>").count(), 2, "the data and the modules");
    assert!(
        page.contains("&lt;img src=x onerror=alert(1)&gt;"),
        "the table without scripts"
    );
}

/// The modules create elements only with text nodes.
#[test]
fn no_module_parses_html() {
    for module in MODULES.iter().chain(LIVE_MODULES) {
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ] {
            assert!(!module.text.contains(word), "{} uses {word}", module.name);
        }
    }
}

#[test]
fn no_asset_refers_to_another_host() {
    let url =
        Regex::new(r#"(?i)(https?:)?//[a-z0-9-]+\.[a-z]|url\(|@import|fetch\(|XMLHttpRequest|WebSocket|src="#).unwrap();
    let modules = MODULES.iter().map(|module| (module.name, module.text));
    let pages = [("static.html", STATIC_SHELL), ("static.css", STATIC_STYLE)];
    for (name, text) in modules
        .chain([("shell.html", SHELL), ("theme.css", STYLE)])
        .chain(pages)
    {
        let found = url.find(text);
        assert!(found.is_none(), "{name}: {found:?}");
    }
}

/// A dashboard requests its own server, by paths without a host.
#[test]
fn no_asset_of_the_dashboard_refers_to_another_host() {
    let url = Regex::new(r#"(?i:https?:)?//[a-z0-9-]+\.[a-z]|url\(|@import|XMLHttpRequest|WebSocket"#).unwrap();
    let modules = LIVE_MODULES.iter().map(|module| (module.name, module.text));
    let style = crate::asset("live.css").unwrap().text;
    for (name, text) in modules.chain([("live.html", LIVE_SHELL), ("live.css", style)]) {
        let found = url.find(text);
        assert!(found.is_none(), "{name}: {found:?}");
    }
}

#[test]
fn the_assets_have_at_most_150_kilobytes() {
    let modules = MODULES.iter().chain(LIVE_MODULES).map(|module| module.text.len());
    let live_style = crate::asset("live.css").unwrap().text;
    let shells = [SHELL, STYLE, LIVE_SHELL, live_style, STATIC_SHELL, STATIC_STYLE];
    let all = modules.sum::<usize>() + shells.iter().map(|text| text.len()).sum::<usize>();
    assert!(all <= 150_000, "{all} bytes");
}

#[test]
fn the_page_allows_no_request() {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
    assert!(SHELL.contains(&format!("content=\"{policy}\"")));
}

/// The colors of a part of the style sheet, by variable.
fn colors(part: &str) -> BTreeMap<String, [f64; 3]> {
    let color = Regex::new("(--[a-z-]+): #([0-9a-f]{6})").unwrap();
    let channel = |hex: &str, index: usize| {
        let value = f64::from(u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).unwrap()) / 255.0;
        match value {
            low if low <= 0.03928 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        }
    };
    let found = color.captures_iter(part);
    found
        .map(|found| (found[1].to_owned(), [0, 1, 2].map(|index| channel(&found[2], index))))
        .collect()
}

/// The contrast of two colors as WCAG 2 defines it.
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let luminance = |[red, green, blue]: [f64; 3]| 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
    let (one, other) = (luminance(one), luminance(other));
    one.max(other) / one.min(other)
}

#[test]
fn texts_have_a_contrast_of_at_least_4_5_in_both_themes() {
    let (light, rest) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
    let (dark, _) = rest.split_once("* {").unwrap();
    for (theme, colors) in [("light", colors(light)), ("dark", colors(dark))] {
        let texts = ["--text", "--muted", "--accent", "--good", "--bad", "--warn"];
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for text in texts {
            pairs.extend(["--bg", "--panel", "--select", "--hover"].map(|ground| (text, ground)));
        }
        pairs.extend([("--good", "--pass-bg"), ("--bad", "--fail-bg")]);
        // The bar of a leader has no text.
        let states = colors
            .keys()
            .filter(|name| name.starts_with("--s-") && *name != "--s-leader");
        pairs.extend(states.map(|state| ("--ink", state.as_str())));
        assert!(pairs.len() > 30, "{pairs:?}");
        for (text, ground) in pairs {
            let contrast = contrast(colors[text], colors[ground]);
            assert!(contrast >= 4.5, "{theme}: {text} on {ground} has {contrast:.2}");
        }
    }
}
