// Builds the page from the record in it.

import { byId, element, fill } from "./dom.js";
import { decode, indexed } from "./record.js";
import { State } from "./state.js";
import { Colors } from "./palette.js";
import { overview } from "./overview.js";
import { charts } from "./chart.js";
import { lanes } from "./lanes.js";
import { list } from "./list.js";
import { logs } from "./logs.js";
import { detail } from "./detail.js";
import { checks } from "./checks.js";
import { head } from "./head.js";
import { printing } from "./print.js";
import { keys } from "./keys.js";
import { tools } from "./tools.js";

/** Shows why the record cannot be shown. */
function failed(error) {
	fill(byId("head"), element("h1", { class: "verdict" }, "The record in this page cannot be shown"), element("p", {}, `${error}. Use a browser of 2023 or later, or make the page again with \`drydock report\`.`));
}

async function start() {
	const index = indexed(await decode(byId("data").textContent));
	document.title = `${index.record.meta.verdict.passed ? "passed" : "FAILED"}: ${document.title}`;
	byId("main").hidden = false;
	const state = new State(index);
	head(index, (number) => state.select(number));
	const colors = new Colors();
	const drawings = [tools(state), overview(state, colors), lanes(state, colors), charts(state, colors), list(state), logs(state), detail(state)];
	checks(state);
	printing(state);
	keys(state);
	const size = () => `${byId("main").clientWidth} ${innerHeight}`;
	let drawn = "";
	state.onChange(() => {
		drawn = size();
		drawings.forEach((one) => one());
	});
	new ResizeObserver(() => size() !== drawn && state.changed()).observe(byId("main"));
	window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
		colors.forget();
		state.changed();
	});
	window.addEventListener("hashchange", () => state.restore());
	if (location.hash.length > 1) state.restore();
	else if (index.violations.length > 0) state.select(index.violations[0].number);
	state.changed();
}

start().catch(failed);
