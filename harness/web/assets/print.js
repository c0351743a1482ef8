// The events of the chosen range as a table, for paper.

import { byId, element, fill, table } from "./dom.js";
import { counted, relative } from "./text.js";
import { actorName } from "./record.js";

/** The number of rows on paper. */
const MOST_ROWS = 500;

/**
 * Fills the table before the page is printed.
 * @param {import("./state.js").State} state
 */
export function printing(state) {
	const box = byId("print");
	/** The plan is printed, too. */
	const openPlan = (open) => document.querySelectorAll("#head details").forEach((details) => details.toggleAttribute("open", open));
	function prepare() {
		openPlan(true);
		const points = state.visible.slice(-MOST_ROWS);
		const cut = state.visible.length - points.length;
		const rows = points.map((point) =>
			element(
				"tr",
				{},
				element("td", { class: "num" }, String(point.number)),
				element("td", { class: "at" }, relative(point.at)),
				element("td", {}, actorName(state.index, point.actor)),
				element("td", {}, point.violates === undefined ? point.summary : `▲ violation: ${point.summary}`),
			),
		);
		fill(
			box,
			element("h2", {}, "Events"),
			cut > 0 ? element("p", {}, `The last ${points.length} of ${counted(state.visible.length, "event")} in the chosen range.`) : null,
			table(["Number", "Time", "Of", "Event"], rows),
		);
	}
	window.addEventListener("beforeprint", prepare);
	window.addEventListener("afterprint", () => openPlan(false));
	const media = window.matchMedia("print");
	media.addEventListener("change", () => media.matches && prepare());
	if (media.matches) prepare();
}
