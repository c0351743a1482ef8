// Faults: a form that shows what a fault would hit, and the same as a command and as lines of a plan, before it is injected.

import { button, byId, element, fill } from "./dom.js";
import { duration } from "./text.js";

/** The pause after a change of the form before its preview is asked for, in milliseconds. */
const PAUSE = 150;

/**
 * Sends a request that only this page can send.
 * @returns {Promise<Response>}
 */
export function post(path, body) {
	return fetch(path, { method: "POST", headers: { "content-type": "application/json", "x-drydock-request": "1" }, body: JSON.stringify(body) });
}

/**
 * Shows the faults.
 * @param {{buttons: boolean, faults: any[], codes: string[], active: any[]}} settings
 * @returns {{draw: () => void, active: (faults: any[]) => void}} follows the selection, and the faults that last
 */
export function chaos(view, settings) {
	const box = byId("chaos");
	const groups = [...new Set(settings.faults.map((fault) => fault.group))];
	const option = (fault) => element("option", { value: fault.name }, fault.title);
	const choice = element("select", { id: "fault", onchange: () => changed() }, ...groups.map((group) => element("optgroup", { label: group }, ...settings.faults.filter((fault) => fault.group === group).map(option))));
	const targets = element("input", { id: "fault-targets", placeholder: "name, pool-*, *", oninput: () => ask() });
	const seconds = element("input", { id: "fault-seconds", type: "number", min: 1, max: 86400, placeholder: "until it is ended", oninput: () => ask() });
	const code = element("select", { id: "fault-code", onchange: () => ask() }, ...settings.codes.map((name) => element("option", {}, name)));
	code.value = "Unavailable";
	const preview = element("div", { id: "preview", role: "status" });
	const inject = button("Inject", () => void send(), { id: "inject", disabled: true });
	const result = element("p", { id: "fault-result", role: "status" });
	const lasting = element("div", { id: "active-faults" });
	const row = (text, input) => element("label", {}, element("span", {}, text), input);
	const rows = { targets: row("Target", targets), seconds: row("Seconds", seconds), code: row("Code", code) };
	const note = settings.buttons ? null : element("p", {}, "This dashboard is read-only. Run the command, or restart drydock with ", element("code", {}, "--buttons"), ".");
	fill(box, element("h2", {}, "Faults"), row("Fault", choice), rows.targets, rows.seconds, rows.code, preview, settings.buttons ? inject : null, note, result, lasting);
	let [asked, timer, isRefused] = [0, 0, false];
	let followed = null;

	const fault = () => settings.faults.find((one) => one.name === choice.value);
	const request = () => ({
		fault: choice.value,
		targets: fault().needs === "nothing" ? [] : targets.value.split(/[\s,]+/).filter(Boolean),
		seconds: fault().lasts && seconds.value !== "" ? Number(seconds.value) : null,
		code: choice.value === "cloud.code" ? code.value : null,
	});

	function changed() {
		rows.targets.hidden = fault().needs === "nothing";
		rows.seconds.hidden = !fault().lasts;
		rows.code.hidden = choice.value !== "cloud.code";
		suggest();
		ask();
	}

	/** The selection is the target. */
	function suggest() {
		const tile = view.tile();
		if (fault().needs === "machines" && tile?.machine) targets.value = tile.machine.name;
		if (fault().needs === "zones" && tile) targets.value = tile.zone;
	}

	function ask() {
		clearTimeout(timer);
		asked += 1;
		inject.disabled = true;
		timer = setTimeout(() => void show(asked), PAUSE);
	}

	async function show(number) {
		if (fault().needs !== "nothing" && targets.value.trim() === "") {
			fill(preview, element("p", {}, fault().needs === "zones" ? "Name a zone, or choose a tile in it." : "Name machines, or choose a tile."));
			return;
		}
		const answer = await post("/api/preview", request());
		const found = answer.ok ? await answer.json() : { problem: await answer.text() };
		if (number !== asked) return;
		isRefused = found.problem !== undefined;
		if (isRefused) {
			fill(preview, element("p", { class: "error" }, found.problem));
			return;
		}
		const shown = found.hits.slice(0, 5).join(", ") + (found.hits.length > 5 ? ` and ${found.hits.length - 5} more` : "");
		fill(
			preview,
			element("p", {}, element("b", {}, `Hits ${found.hits.length} of ${found.of}: `), shown),
			...(found.commands.length > 0 ? [element("h3", {}, "As a command"), element("pre", { id: "fault-command", tabindex: 0 }, found.commands.join("\n"))] : [element("p", {}, "No command does the same.")]),
			element("h3", {}, "In a plan"),
			element("pre", { id: "fault-plan", tabindex: 0 }, found.plan),
		);
		inject.disabled = false;
	}

	async function send() {
		inject.disabled = true;
		const answer = await post("/api/faults", request());
		const text = answer.ok ? `Injected: ${(await answer.json()).title}` : await answer.text();
		say(answer, text);
		ask();
	}

	async function end(number) {
		const answer = await post("/api/faults/end", { number });
		say(answer, answer.ok ? "Ended" : await answer.text());
	}

	function say(answer, text) {
		result.className = answer.ok ? "done" : "error";
		result.textContent = text;
	}

	let known = "";
	/** Lists the faults that last, with a button to end each. */
	function active(faults) {
		const text = JSON.stringify(faults);
		if (text === known) return;
		known = text;
		const left = ({ since, until }) => (until ? `for ${duration((Date.parse(until) - Date.parse(since)) * 1000)}` : "until it is ended");
		const item = (fault) => element("li", {}, `${fault.title}, ${left(fault)} `, settings.buttons ? button("End", () => void end(fault.number), { "aria-label": `End ${fault.title}` }) : null);
		fill(lasting, ...(faults.length > 0 ? [element("h3", {}, "Active"), element("ul", {}, ...faults.map(item))] : []));
	}

	changed();
	active(settings.active);
	const draw = () => {
		// Another world may have the targets.
		if (isRefused) ask();
		isRefused = false;
		if (view.selected === followed) return;
		followed = view.selected;
		suggest();
		ask();
	};
	return { draw, active };
}
