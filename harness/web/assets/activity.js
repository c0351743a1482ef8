// What the controller and the faults did in numbers, and what did not happen.

import { element, linkButton, table } from "./dom.js";
import { duration, relative } from "./text.js";
import { isFailure } from "./record.js";

/** The methods of the cloud that every driver has; one that was never called is listed, too. */
const METHODS = ["CreateMachine", "InitializeMachine", "GetMachineStatus", "ListMachines", "DeleteMachine"];

const eventLink = (point, select) => (point ? linkButton(`${point.number} at ${relative(point.at)}`, () => select(point.number)) : "");

function numbers(title, names, rows) {
	const cells = (row) => row.map((value, number) => (number === 0 ? element("th", { scope: "row" }, value) : element("td", {}, value)));
	return table(names, rows.map((row) => element("tr", {}, ...cells(row))), title);
}

/** The last write of mcm; `undefined`: there is none, or writers are not known. */
export function lastWrite(index) {
	return index.points.findLast((point) => (point.verb === "write" || point.verb === "delete") && (point.by ?? "").startsWith("process/mcm"));
}

/**
 * The usual methods that were never called; none if no calls are known.
 * @param {import("./record.js").Index} index
 */
export function neverCalled(index) {
	const called = new Set(index.points.map((point) => point.call));
	return called.size > 1 ? METHODS.filter((method) => !called.has(method)) : [];
}

/**
 * The cloud calls by method, and the faults with their effects.
 * @param {import("./record.js").Index} index
 * @param {(number: number) => void} select
 */
export function activity(index, select) {
	const calls = index.points.filter((point) => point.verb === "call" && point.call !== undefined);
	const methods = [...new Set([...METHODS, ...calls.map((point) => point.call)])];
	const callRows = methods.map((method) => {
		const all = calls.filter((point) => point.call === method);
		const failed = all.filter(isFailure).length;
		return [method, all.length === 0 ? "never called" : String(all.length), failed > 0 ? String(failed) : "", eventLink(all[0], select), eventLink(all[all.length - 1], select)];
	});
	const faults = [...index.actors.values()].filter((actor) => actor.kind === "fault");
	const faultRows = faults.map((actor) => {
		const events = index.byActor.get(actor.id) ?? [];
		const hits = index.points.filter((point) => point.fault === actor.name);
		const windows = (index.spans.get(actor.id) ?? []).map((span) => `${relative(span.from)} to ${span.to === undefined ? "the end" : relative(span.to)}`);
		const source = events[0]?.step === undefined ? "the plan" : `step ${events[0].step}`;
		return [actor.name, source, windows.join(", "), hits.length === 0 ? "" : String(hits.length), eventLink(hits[0] ?? events[0], select)];
	});
	const known = calls.length > 0 || index.record.points.every((point) => point.verb !== "call");
	const last = lastWrite(index);
	return [
		last ? element("p", {}, "Last write of mcm: ", eventLink(last, select), `, ${duration(index.lasted - last.at)} before the end.`) : null,
		known ? numbers("Cloud calls", ["Method", "Calls", "Failed", "First", "Last"], callRows) : null,
		faultRows.length > 0 ? numbers("Faults", ["Fault", "From", "Time", "Requests hit", "First event"], faultRows) : null,
	].filter(Boolean);
}
