// The head of the page: the verdict, the command that repeats the run, the plan, and what is not part of the record.

import { button, byId, element, fill, linkButton } from "./dom.js";
import { counted, duration, grouped, relative } from "./text.js";
import { activity, lastWrite, neverCalled } from "./activity.js";

/**
 * @param {import("./record.js").Index} index
 * @param {(number: number) => void} select
 */
export function head(index, select) {
	const { meta, dropped = [] } = index.record;
	const { verdict } = meta;
	const state = element("span", { class: `badge ${verdict.passed ? "pass" : "fail"}` }, verdict.passed ? "PASSED" : "FAILED");
	const copied = element("span", { role: "status" });
	const copy = button("Copy", () => copyText(meta.replay, copied));
	const machines = [...index.actors.values()].filter((actor) => actor.kind === "machine").length;
	const facts = [
		["Scenario", meta.scenario],
		["Stage", meta.target ? `${meta.stage} with ${meta.target}` : meta.stage],
		["Seed", String(meta.seed)],
		["Lasted", `${duration(meta.lasted)}, ${duration(meta.wallSeconds * 1e6)} by the wall clock`],
		["Events", grouped(index.points.length)],
		["Machines", String(machines)],
		["Faults", String([...index.actors.values()].filter((actor) => actor.kind === "fault").length)],
		meta.mutant ? ["Planted defect", `${meta.mutant} (put into mcm by --mutant, to test the tests)`] : null,
		meta.controller ? ["Controller", meta.controller] : null,
		meta.commit ? ["Commit", meta.commit] : null,
		meta.trace ? ["Trace", meta.trace.hash.slice(0, 12)] : null,
	];
	const never = neverCalled(index);
	const missing = dropped.map((kind) => `${grouped(kind.count)} ${kind.what}`);
	fill(
		byId("head"),
		element("h1", { class: "verdict" }, state, element("span", {}, verdict.sentence)),
		meta.about ? element("p", { class: "facts" }, meta.about) : null,
		element("div", { class: "facts" }, ...facts.filter(Boolean).map(([name, value]) => element("span", {}, `${name} `, element("b", {}, value)))),
		element("div", { class: "replay" }, element("span", {}, "Replay"), element("code", { id: "replay", tabindex: 0 }, meta.replay), copy, copied),
		idleNote(index, select),
		element("details", { class: "activity" }, element("summary", {}, never.length > 0 ? `Cloud calls and faults (never called: ${never.join(", ")})` : "Cloud calls and faults"), ...activity(index, select)),
		disturbances(meta.disturbances ?? []),
		element("details", {}, element("summary", {}, "Plan"), savedPlan(meta), element("pre", { class: "plan", tabindex: 0 }, meta.plan)),
		missing.length > 0 ? element("p", { class: "note" }, `Not part of the record: ${missing.join("; ")}.`) : null,
	);
}

/** A longer time than this without a write before a failure is said in the head. */
const LONG_IDLE = 300e6;

/** Says that the controller did nothing for a long time before a failure. */
function idleNote(index, select) {
	const last = lastWrite(index);
	const idle = last ? index.lasted - last.at : 0;
	if (index.record.meta.verdict.passed || idle < LONG_IDLE) return null;
	return element("p", {}, `mcm wrote nothing in the last ${duration(idle)}; its last write is `, linkButton(`event ${last.number} at ${relative(last.at)}`, () => select(last.number)), ".");
}

/** A link that saves the plan: the command may name a file that only exists where the run was. */
function savedPlan(meta) {
	const href = `data:application/yaml;charset=utf-8,${encodeURIComponent(meta.plan)}`;
	return element("p", {}, element("a", { href, download: "plan.yaml" }, "Save this plan"), " and run ", element("code", {}, "drydock run --plan plan.yaml"), " if the command above names a file that you do not have.");
}

/** The disturbances of the plan, with their hits. */
function disturbances(all) {
	if (all.length === 0) return null;
	const hit = all.filter((one) => one.hits > 0).length;
	const items = all.map((one) => element("li", {}, `${one.what} (${counted(one.hits, "hit")})`));
	return element("details", {}, element("summary", {}, `${counted(all.length, "disturbance")}, ${hit} with hits`), element("ul", {}, ...items));
}

/** Copies a text, also where the page has no access to the clipboard. */
async function copyText(text, status) {
	try {
		await navigator.clipboard.writeText(text);
		status.textContent = "copied";
	} catch {
		getSelection().selectAllChildren(byId("replay"));
		const done = document.execCommand("copy");
		status.textContent = done ? "copied" : "selected: press Ctrl+C";
	}
}
