// The keyboard: every view is reached without a pointer.

import { button, byId, element, fill } from "./dom.js";

/** The keys and what they do, as the help shows them. */
const KEYS = [
	["A D or ← →", "move in time"],
	["W S or + −", "zoom in and out"],
	["f", "show the whole run"],
	["] and [", "next and previous violation"],
	["j k or ↓ ↑", "next and previous event"],
	["c", "what led to the selected event, or came before it"],
	["p", "the previous write of the same object"],
	["/", "search"],
	["g", "fold or unfold idle time"],
	["Esc", "clear the selection or the search"],
	["?", "this help"],
];

/** Keys that do the same as a letter. */
const SAME = { ArrowLeft: "a", ArrowRight: "d", "+": "w", "-": "s", ArrowDown: "j", ArrowUp: "k" };

/** The fields of a search. */
const SEARCH = [
	["actor:m-1", "in the row of m-1"],
	["object:Machine", "writes of an object"],
	["by:mcm", "performed by a process"],
	["field:replicas", "changes a field"],
	["value:when-failed", "has an old or new value"],
	["verb: code: fault:", "kind, code and fault of an event"],
	["step:4", "during step 4"],
	["is:violation is:failed", "violations, failed calls"],
];

/** Selects the next event of a list after the selected one, or the previous one. */
function step(state, points, direction) {
	const selected = state.selected;
	const candidates = direction > 0 ? points : [...points].reverse();
	const next = candidates.find((point) => selected === null || (point.number - selected) * direction > 0);
	if (next) state.select(next.number);
}

/**
 * @param {import("./state.js").State} state
 * @param {{name: string, shown: string | null, text: string, action: () => void}[]} more further keys of this page
 */
export function keys(state, more = []) {
	const help = byId("help");
	fill(
		help,
		element("b", {}, "Keys"),
		element("dl", {}, ...[...KEYS, ...more.filter((key) => key.shown).map((key) => [key.shown, key.text])].flatMap(([key, text]) => [element("dt", {}, key), element("dd", {}, text)])),
		element("b", {}, "Search"),
		element("dl", {}, ...SEARCH.flatMap(([field, text]) => [element("dt", {}, field), element("dd", {}, text)])),
		element("p", {}, "Words must all occur, also in changed fields and values. A minus excludes. In the timeline, Ctrl and the wheel zoom; in the overview, drag."),
		button("Close", () => help.close()),
	);
	const actions = {
		a: () => state.pan(-0.2),
		d: () => state.pan(0.2),
		w: () => state.zoom(1 / 1.5, 0.5),
		s: () => state.zoom(1.5, 0.5),
		f: () => state.show(0, 1),
		"]": () => step(state, state.index.violations, 1),
		"[": () => step(state, state.index.violations, -1),
		j: () => step(state, state.visible, 1),
		k: () => step(state, state.visible, -1),
		c: () => {
			const cause = state.index.byNumber.get(state.selected)?.cause;
			if (cause !== undefined) state.select(cause);
		},
		p: () => {
			const previous = state.index.byNumber.get(state.selected)?.previous;
			if (previous !== undefined) state.select(previous);
		},
		"/": () => byId("search").focus(),
		g: () => state.fold(!state.folded),
		"?": () => help.showModal(),
		Escape: () => (state.selected !== null ? state.select(null) : state.find("")),
		...Object.fromEntries(more.map((key) => [key.name, key.action])),
	};
	document.addEventListener("keydown", (event) => {
		const { target } = event;
		if (event.ctrlKey || event.metaKey || event.altKey || help.open || !(target instanceof HTMLElement)) return;
		if (target.matches("input, textarea, select")) {
			if (event.key === "Escape") target.blur();
			return;
		}
		// Space presses a button.
		if (event.key === " " && target.matches("button, summary")) return;
		// Elements that scroll keep their arrow keys.
		if (event.key.startsWith("Arrow") && target.matches("pre, details *, .detail *")) return;
		const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
		const action = actions[SAME[key] ?? key];
		if (!action) return;
		event.preventDefault();
		action();
	});
}
