// The lines of the logs in the time range.

import { byId, element, fill } from "./dom.js";
import { counted, relative } from "./text.js";
import { parsed } from "./query.js";

/** The maximum number of lines that are shown. */
const MOST_LINES = 2000;

/**
 * Shows the logs below the list of events, those of one process or all, with the words of the search.
 * @param {import("./state.js").State} state
 * @returns {() => void} draws them
 */
export function logs(state) {
	const all = state.index.record.logs ?? [];
	if (all.length === 0) return () => {};
	const lines = all.flatMap(({ name, lines }) => lines.map((line) => ({ ...line, name })));
	lines.sort((one, other) => one.at - other.at);
	const names = ["all processes", ...all.map((log) => log.name)];
	const choice = element("select", { "aria-label": "Process", onchange: () => draw() }, ...names.map((name, number) => element("option", { value: number ? name : "" }, name)));
	const [summary, text] = [element("summary", {}), element("pre", { class: "log", tabindex: 0, "aria-label": "Logs" })];
	const box = element("details", { ontoggle: () => draw() }, summary, choice, text);
	fill(byId("logs"), box);

	function draw() {
		const [from, to] = [state.scale.time(state.from), state.scale.time(state.to)];
		const words = parsed(state.search).filter((term) => term.field === "");
		const matches = (line) => words.every(({ value, not }) => line.text.toLowerCase().includes(value) !== not);
		const isChosen = (line) => line.at >= from && line.at <= to && [line.name, ""].includes(choice.value) && matches(line);
		const found = lines.filter(isChosen);
		summary.textContent = `Logs: ${counted(found.length, "line")} in this range`;
		if (!box.open) return;
		const shown = found.slice(0, MOST_LINES).map((line) => `${relative(line.at).padEnd(13)} ${line.name}  ${line.text}`);
		if (found.length > MOST_LINES) shown.push(`… and ${counted(found.length - MOST_LINES, "line")} more: choose a shorter range`);
		text.textContent = shown.join("\n");
	}

	return draw;
}
