// The list of events in the time range. Only the visible rows exist.

import { byId, element, fill } from "./dom.js";
import { counted, grouped, relative } from "./text.js";
import { actorName } from "./record.js";

/** The height of a row, and the number of rows above and below the visible ones. */
const ROW = 24;
const SPARE = 8;

/**
 * Shows the list.
 * @param {import("./state.js").State} state
 * @returns {() => void} draws it
 */
export function list(state) {
	const [box, head] = [byId("list"), byId("list-head")];
	const inner = element("div", { role: "presentation" });
	inner.style.position = "relative";
	box.append(inner);
	let shownSelection = null;

	function row(point, number) {
		const selected = point.number === state.selected;
		const violation = point.violates !== undefined;
		const created = element(
			"div",
			{
				class: `row${violation ? " violation" : ""}`,
				role: "option",
				id: `event-${point.number}`,
				"aria-selected": selected ? "true" : "false",
				"aria-posinset": number + 1,
				"aria-setsize": state.visible.length,
				onclick: () => state.select(point.number),
			},
			element("span", { class: "num" }, String(point.number)),
			element("span", { class: "at mono" }, relative(point.at)),
			element("span", { class: "verb" }, point.verb),
			element("span", { class: "who" }, actorName(state.index, point.actor)),
			element("span", { title: point.summary }, violation ? `▲ ${point.summary}` : point.summary),
		);
		created.style.top = `${number * ROW}px`;
		return created;
	}

	function draw() {
		const { visible } = state;
		// While a session continues, the list shows its end until the user scrolls back.
		const atEnd = state.follows && box.scrollTop + box.clientHeight >= inner.offsetHeight - ROW;
		inner.style.height = `${visible.length * ROW}px`;
		if (atEnd) box.scrollTop = box.scrollHeight;
		if (state.selected !== shownSelection) {
			shownSelection = state.selected;
			reveal(visible.findIndex((point) => point.number === state.selected));
		}
		const first = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE);
		const last = Math.min(visible.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + SPARE);
		fill(inner, ...visible.slice(first, last).map((point, number) => row(point, first + number)));
		const isShown = visible.slice(first, last).some((point) => point.number === state.selected);
		if (isShown) box.setAttribute("aria-activedescendant", `event-${state.selected}`);
		else box.removeAttribute("aria-activedescendant");
		const all = state.index.points.length;
		const found = state.search ? `${counted(visible.length, "event")} of ${grouped(state.inRange)} in this range match` : `${counted(visible.length, "event")} in this range`;
		head.textContent = visible.length === all ? `All ${counted(all, "event")}` : `${found}; ${grouped(all)} in the run`;
	}

	function reveal(number) {
		if (number < 0) return;
		const top = number * ROW;
		if (top < box.scrollTop || top + ROW > box.scrollTop + box.clientHeight) {
			box.scrollTop = Math.max(0, top - box.clientHeight / 2);
		}
	}

	box.addEventListener("scroll", draw);
	return draw;
}
