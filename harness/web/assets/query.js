// The search: words that must occur, and `name:value` for single fields.

import { isFailure } from "./record.js";
import { rowsOf, shown } from "./diff.js";

/** Fields that a search can name. */
const FIELDS = ["verb", "actor", "by", "object", "code", "fault", "step", "is", "field", "value"];

/** @returns {{field: string, value: string, not: boolean}[]} */
export function parsed(text) {
	const words = text.match(/-?(?:\w+:)?(?:"[^"]*"|[^\s"]+)/g) ?? [];
	return words.map((word) => {
		const not = word.startsWith("-") && word.length > 1;
		const rest = not ? word.slice(1) : word;
		const split = rest.indexOf(":");
		const name = split > 0 ? rest.slice(0, split) : "";
		const field = FIELDS.includes(name) ? name : "";
		const value = (field ? rest.slice(split + 1) : rest).replaceAll('"', "").toLowerCase();
		return { field, value, not };
	});
}

/**
 * Whether an event matches a search.
 * @param {import("./record.js").Index} index
 * @param {import("./record.js").Point} point
 * @param {{field: string, value: string, not: boolean}[]} terms
 */
export function matches(index, point, terms) {
	return terms.every(({ field, value, not }) => matchesTerm(index, point, field, value) !== not);
}

/** The paths of the fields that a write changes, and their old and new values, in lower case. */
function changed(index, point, what) {
	const texts = rowsOf(index, point).map((row) => (what === "field" ? row.label : `${shown(row.before)} ${shown(row.after)}`));
	return texts.join("\n").toLowerCase();
}

/** @param {import("./record.js").Index} index */
function matchesTerm(index, point, field, value) {
	if (field === "is") {
		if (value === "violation") return point.violates !== undefined;
		if (value === "failed") return isFailure(point);
		return false;
	}
	if (field === "step") return String(point.step ?? "") === value;
	if (field === "field" || field === "value") return changed(index, point, field).includes(value);
	if (field) return String(point[field] ?? "").toLowerCase().includes(value);
	const text = `${point.number} ${point.summary} ${point.actor} ${point.object ?? ""} ${point.by ?? ""} ${point.fault ?? ""}`;
	return text.toLowerCase().includes(value) || changed(index, point, "field").includes(value) || changed(index, point, "value").includes(value);
}
