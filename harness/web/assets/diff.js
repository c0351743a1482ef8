// Shows the change of an object field by field.

import { element, linkButton } from "./dom.js";
import { shortened } from "./text.js";
import { applied, leaves, valueAt } from "./objects.js";

/** The number of characters of a value in the table. */
const MOST = 400;

/** A value as text. */
export function shown(value) {
	if (value === undefined) return "";
	return typeof value === "string" ? value : JSON.stringify(value);
}

/**
 * The changes of an array of objects with a `type` (conditions) or a `name`, element by element.
 * @returns {{name: string, before: any, after: any}[] | null} `null`: it is no such array
 */
function elements(before, after) {
	if (!Array.isArray(before) || !Array.isArray(after)) return null;
	// Two taints can have the same key.
	const nameOf = (item) => item?.type ?? item?.name ?? (item?.key === undefined ? undefined : `${item.key}:${item.effect ?? ""}`);
	const named = (list) =>
		list.every((item) => typeof nameOf(item) === "string") && new Set(list.map(nameOf)).size === list.length;
	if (!named(before) || !named(after)) return null;
	const names = [...new Set([...before, ...after].map(nameOf))];
	return names.map((name) => ({
		name,
		before: before.find((item) => nameOf(item) === name),
		after: after.find((item) => nameOf(item) === name),
	}));
}

/**
 * The rows of a change: path, old and new value.
 * @param {any} before the object before the change
 * @returns {{path: string[], label: string, before: any, after: any}[]}
 */
export function changes(before, patch) {
	const rows = [];
	for (const { path, value } of leaves(patch)) {
		const old = valueAt(before, path);
		const label = path.join(".");
		const items = elements(old, value);
		if (!items) {
			rows.push({ path, label, before: old, after: value === null ? undefined : value });
			continue;
		}
		for (const item of items) {
			const fields = [...new Set([...Object.keys(item.before ?? {}), ...Object.keys(item.after ?? {})])];
			for (const field of fields) {
				const [was, is] = [item.before?.[field], item.after?.[field]];
				if (JSON.stringify(was) !== JSON.stringify(is)) rows.push({ path, label: `${label}[${item.name}].${field}`, before: was, after: is });
			}
		}
	}
	return rows;
}

/** The changes of each write of a record. */
const KNOWN_ROWS = new WeakMap();

/**
 * The changes of a write. Those of all writes of an object are computed together.
 * @param {import("./record.js").Index} index
 * @param {import("./record.js").Point} point
 * @returns {{path: string[], label: string, before: any, after: any}[]}
 */
export function rowsOf(index, point) {
	if (point.diff === undefined) return [];
	if (!KNOWN_ROWS.has(point)) {
		let object = {};
		for (const write of index.writes.get(point.object) ?? [point]) {
			if (write.previous === undefined) object = {};
			KNOWN_ROWS.set(write, changes(object, write.diff ?? {}));
			object = applied(object, write.diff ?? {});
		}
	}
	return KNOWN_ROWS.get(point) ?? [];
}

/**
 * A table of a change.
 * @param {(path: string[]) => void} onField called with the path of a field that is chosen
 */
export function diffTable(before, patch, onField) {
	const body = changes(before, patch).map((row) =>
		element(
			"tr",
			{},
			element("th", { scope: "row" }, linkButton(row.label.replaceAll(".", ".\u200b"), () => onField(row.path))),
			element(
				"td",
				{},
				row.before === undefined ? null : element("del", { "aria-label": "before" }, `− ${shortened(shown(row.before), MOST)}`),
				row.before === undefined || row.after === undefined ? null : element("br", {}),
				row.after === undefined ? null : element("ins", { "aria-label": "after" }, `+ ${shortened(shown(row.after), MOST)}`),
			),
		),
	);
	return element("table", { class: "changes" }, element("tbody", {}, ...body));
}
