// Reconstructs objects from the recorded changes, and finds all writes of a field.

/** Applies a JSON merge patch (RFC 7386). */
export function applied(target, patch) {
	if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
	const isObject = target !== null && typeof target === "object" && !Array.isArray(target);
	const result = isObject ? { ...target } : {};
	for (const [name, value] of Object.entries(patch)) {
		if (value === null) delete result[name];
		else result[name] = applied(result[name], value);
	}
	return result;
}

/**
 * The object after an event; `null`: it does not exist then.
 * @param {import("./record.js").Index} index
 * @param {import("./record.js").Point | undefined} point
 */
export function objectAt(index, point) {
	const chain = [];
	for (let at = point; at; at = at.previous === undefined ? undefined : index.byNumber.get(at.previous)) {
		if (at.verb === "delete") {
			if (at === point) return null;
			break;
		}
		chain.push(at);
	}
	return chain.reverse().reduce((object, at) => applied(object, at.diff ?? {}), {});
}

/**
 * The changed fields of a merge patch as paths, with their new values.
 * @param {string[]} path
 * @returns {{path: string[], value: any}[]}
 */
export function leaves(patch, path = []) {
	const isObject = patch !== null && typeof patch === "object" && !Array.isArray(patch);
	if (!isObject || Object.keys(patch).length === 0) return path.length === 0 ? [] : [{ path, value: patch }];
	return Object.entries(patch).flatMap(([name, value]) => leaves(value, [...path, name]));
}

/**
 * The value at a path; `undefined`: there is none.
 * @param {string[]} path
 */
export function valueAt(object, path) {
	return path.reduce((value, name) => (value === null || value === undefined ? undefined : value[name]), object);
}

/**
 * All writes of a field of an object, in their order.
 * @param {import("./record.js").Index} index
 * @param {string[]} path
 * @returns {import("./record.js").Point[]}
 */
export function writesOf(index, object, path) {
	return (index.writes.get(object) ?? []).filter((point) => touches(point.diff, path));
}

/**
 * Whether a merge patch changes the value at a path.
 * @param {string[]} path
 */
function touches(patch, path) {
	let value = patch;
	for (const name of path) {
		if (value === undefined) return false;
		if (value === null || typeof value !== "object" || Array.isArray(value)) return true;
		value = value[name];
	}
	return value !== undefined;
}
