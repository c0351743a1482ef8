// The table of invariants and expectations.

import { byId, element, fill, linkButton, table } from "./dom.js";
import { grouped, relative } from "./text.js";
import { unmetTable } from "./detail.js";

/** The words of the states; the color only repeats them. */
const WORDS = { held: "held", violated: "▲ violated", undecided: "undecided" };

/**
 * Shows the checks.
 * @param {import("./state.js").State} state
 */
export function checks(state) {
	const all = state.index.record.checks;
	const box = byId("checks");
	const row = (check) => {
		const isIdle = check.evaluated === 0 && check.state === "held";
		const violation = check.violated === undefined ? null : linkButton(`event ${check.violated}`, () => state.select(check.violated));
		const times = check.first === undefined ? "" : `${relative(check.first)} to ${relative(check.last ?? check.first)}`;
		return element(
			"tr",
			{},
			element("th", { scope: "row" }, check.name),
			element("td", {}, check.statement),
			element("td", {}, check.unmet?.length > 0 ? unmetTable(check.unmet) : check.observed ?? "", ...(check.readings ?? []).map((reading) => element("div", {}, reading))),
			element("td", { class: isIdle ? "state-none" : `state-${check.state}` }, isIdle ? "not evaluated" : WORDS[check.state]),
			element("td", { class: "count" }, grouped(check.evaluated)),
			element("td", {}, times, violation ? " " : null, violation),
		);
	};
	const expectations = all.filter((check) => check.kind === "expectation");
	const invariants = all.filter((check) => check.kind === "invariant");
	const broken = invariants.filter((check) => check.state === "violated");
	const columns = ["Name", "Rule", "Observed", "Result", "Evaluated", "When"];
	fill(
		box,
		element("h2", {}, `Expectations (${expectations.length})`),
		expectations.length > 0 ? table(["Step", "Expected", "Observed", "Result", "Evaluated", "When"], expectations.map(row)) : element("p", {}, "No expectation began."),
		element("h2", {}, `Invariants (${invariants.length})`),
		element("p", { class: "how" }, "A check is evaluated when something is observed and at its deadlines; after the last of these there is nothing to evaluate."),
		broken.length > 0 ? table(columns, broken.map(row)) : null,
		element("details", {}, element("summary", {}, `${invariants.length - broken.length} that are not violated`), table(columns, invariants.filter((check) => check.state !== "violated").map(row))),
	);
}
