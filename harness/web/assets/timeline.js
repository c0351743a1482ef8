// The timeline of the session: the components of the report, with a record that grows.

import { byId } from "./dom.js";
import { indexed } from "./record.js";
import { State } from "./state.js";
import { overview } from "./overview.js";
import { charts } from "./chart.js";
import { lanes } from "./lanes.js";
import { list } from "./list.js";
import { detail } from "./detail.js";
import { checks } from "./checks.js";
import { keys } from "./keys.js";
import { tools } from "./tools.js";

/** The time between two requests for the record, in milliseconds; at least this many times as long as one takes. */
const PERIOD = 1000;
/** The same for a simulated world, which goes on by single events. */
const PERIOD_IN_SIM = 200;
const SHARE = 4;

/**
 * Shows the timeline.
 * @param {import("./palette.js").Colors} colors
 * @param {any[]} more further keys
 * @returns {Promise<() => void>} asks for a newer record soon
 */
export async function timeline(colors, more) {
	const load = async () => (await fetch("/api/record")).json();
	const state = new State(indexed(await load()));
	state.follows = true;
	const drawings = [tools(state), overview(state, colors), lanes(state, colors), charts(state, colors), list(state), detail(state)];
	keys(state, more);
	state.onChange(() => drawings.forEach((one) => one()));
	new ResizeObserver(() => state.changed()).observe(byId("main"));
	if (location.hash.length > 1) state.restore();
	state.changed();
	showChecks();

	/** The checks of a run; a session has none. */
	function showChecks() {
		if (state.index.record.checks.length > 0) checks(state);
	}

	/** Shows a newer record. A run that fails meanwhile selects its violation. */
	function show(record) {
		const before = state.index.violations.length;
		state.replace(record);
		showChecks();
		if (state.index.violations.length > before) state.select(state.index.violations[0].number);
	}

	let [waiting, again] = [false, false];
	async function refresh() {
		if (waiting) {
			again = true;
			return;
		}
		waiting = true;
		const begin = performance.now();
		try {
			if (!document.hidden) show(await load());
		} catch {
			// The connection is shown in the head; the next change asks again.
		}
		setTimeout(() => {
			waiting = false;
			if (again) {
				again = false;
				void refresh();
			}
		}, Math.max(state.index.record.meta.stage === "sim" ? PERIOD_IN_SIM : PERIOD, SHARE * (performance.now() - begin)));
	}
	document.addEventListener("visibilitychange", () => void refresh());
	return () => void refresh();
}
