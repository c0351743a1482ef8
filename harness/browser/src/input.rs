//! The keyboard and the pointer.

use serde_json::json;

use crate::page::Page;

impl Page {
    /// Presses a key: a letter, or a name such as `Tab`, `Enter`, `ArrowDown`.
    pub fn press(&self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, None),
            "Enter" => (13, Some("\r")),
            "Escape" => (27, None),
            " " => (32, Some(" ")),
            "ArrowLeft" => (37, None),
            "ArrowUp" => (38, None),
            "ArrowRight" => (39, None),
            "ArrowDown" => (40, None),
            text => (0, Some(text)),
        };
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if let Some(text) = text {
            down["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }),
        );
    }

    /// Types a text into the focused element.
    pub fn type_text(&self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses the pointer at the first place, moves it to the last one, and releases it there.
    pub fn drag(&self, from: (f64, f64), to: (f64, f64)) {
        self.pointer("mouseMoved", from, 0);
        self.pointer("mousePressed", from, 1);
        self.pointer("mouseMoved", ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0), 1);
        self.pointer("mouseMoved", to, 1);
        self.pointer("mouseReleased", to, 0);
    }

    /// Clicks at a place.
    pub fn click_at(&self, at: (f64, f64)) {
        self.pointer("mouseMoved", at, 0);
        self.pointer("mousePressed", at, 1);
        self.pointer("mouseReleased", at, 0);
    }

    /// Clicks the middle of the first element that matches a selector.
    ///
    /// # Panics
    /// When no element matches.
    pub fn click(&self, selector: &str) {
        let (left, top, width, height) = self.place_of(selector);
        self.click_at((left + width / 2.0, top + height / 2.0));
    }

    /// Left, top, width and height of the first element that matches a selector, which is scrolled into view. Waits until it does
    /// not move any more.
    ///
    /// # Panics
    /// When no element matches.
    pub fn place_of(&self, selector: &str) -> (f64, f64, f64, f64) {
        let place = self.eval(&format!(
            "(async () => {{ const look = () => {{ const of = document.querySelector({selector:?}); if (!of) return null; \
               of.scrollIntoView({{ block: 'nearest' }}); const box = of.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; }}; \
             let last = look(); \
             for (let round = 0; last && round < 100; round++) {{ \
               await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))); \
               const now = look(); if (now?.every((part, number) => part === last[number])) break; last = now; \
             }} return last; }})()"
        ));
        let part = |index: usize| {
            place[index]
                .as_f64()
                .unwrap_or_else(|| panic!("no element matches {selector}"))
        };
        (part(0), part(1), part(2), part(3))
    }

    fn pointer(&self, kind: &str, (x, y): (f64, f64), buttons: u32) {
        let is_button = kind != "mouseMoved";
        let button = if is_button || buttons > 0 { "left" } else { "none" };
        let event = json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": u32::from(is_button) });
        self.call("Input.dispatchMouseEvent", event);
    }
}
