// The search and the buttons above a timeline.

import { button, byId, element, fill } from "./dom.js";
import { relative } from "./text.js";

/** @param {import("./state.js").State} state */
export function tools(state) {
	const search = element("input", { id: "search", type: "search", placeholder: "Search events  ( / )", "aria-label": "Search events", oninput: () => state.find(search.value) });
	const fit = button("Fit", () => state.show(0, 1), { title: "Show the whole run (f)" });
	const fold = button("Fold idle time", () => state.fold(!state.folded), { title: "Times without events take little space (g)" });
	const togglePods = () => {
		state.pods = !state.pods;
		state.changed();
	};
	const pods = button("Pods", togglePods, { title: "A row for each pod" });
	const next = button("Violation", () => state.select(state.index.violations[0].number), { title: "Next violation ( ] )" });
	const help = button("?", () => byId("help").showModal(), { "aria-label": "Keys" });
	const range = element("span", { class: "range" });
	fill(byId("tools"), search, fit, fold, pods, next, help, range);
	return () => {
		if (document.activeElement !== search) search.value = state.search;
		fold.setAttribute("aria-pressed", String(state.folded));
		pods.setAttribute("aria-pressed", String(state.pods));
		next.hidden = state.index.violations.length === 0;
		range.textContent = `${relative(state.scale.time(state.from))} to ${relative(state.scale.time(state.to))}`;
	};
}
