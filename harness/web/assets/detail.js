// The selected event: its change, what led to it and what followed, and the object at that moment.

import { byId, element, fill, linkButton, table } from "./dom.js";
import { relative, shortened } from "./text.js";
import { actorName, beginOfFault } from "./record.js";
import { objectAt, valueAt, writesOf } from "./objects.js";
import { diffTable, shown } from "./diff.js";

/** The numbers of causes, effects and writes in a list: at first, and at most. */
const FIRST_LINKS = 6;
const MOST_LINKS = 60;
/** What is known of the step from an event to the one before it, by the kind of its link. */
const HOWS = { caused: "caused by", own: "own history", named: "last event of what it names" };

/** The parts of an expectation that did not hold. */
export function unmetTable(unmet) {
	const rows = unmet.map(({ wanted, found }) => element("tr", {}, element("th", { scope: "row" }, wanted), element("td", {}, found)));
	return table(["Wanted", "Found"], rows, "", "changes");
}

/**
 * Shows the selected event.
 * @param {import("./state.js").State} state
 * @returns {() => void} draws it
 */
export function detail(state) {
	const box = byId("detail");
	const { index } = state;
	/** @type {number | null | undefined} the number of the shown event; `undefined`: nothing is shown yet */
	let shownNumber = undefined;
	/** @type {string[] | null} */
	let field = null;

	const link = (point, text, how) => element("li", {}, element("span", { title: point.summary }, how ? element("span", { class: "how" }, `${how}: `) : null, linkButton(text ?? `${point.number}  ${relative(point.at)}  ${shortened(point.summary, 140)}`, () => state.select(point.number))));
	const fact = (name, text) => element("p", {}, element("b", {}, `${name}: `), text);
	const section = (title, ...content) => [element("h3", {}, title), ...content];
	/** A list of which the first items are always visible. */
	const listed = (tag, items, first = FIRST_LINKS) => {
		const rest = items.slice(first, MOST_LINKS);
		if (items.length > MOST_LINKS) rest.push(element("li", {}, `and ${items.length - MOST_LINKS} more`));
		const more = rest.length > 0 ? element("details", {}, element("summary", {}, `${items.length - first} more`), element(tag, { start: first + 1 }, ...rest)) : null;
		return [element(tag, {}, ...items.slice(0, first)), more].filter(Boolean);
	};

	/** The events that a field leads back to, the nearest first, each with the event from which it is reached. */
	function chainOf(point, field) {
		const chain = [];
		const seen = new Set([point]);
		for (let [from, at] = [point, index.byNumber.get(point[field])]; at && !seen.has(at); [from, at] = [at, index.byNumber.get(at[field])]) {
			seen.add(at);
			chain.push({ from, at });
		}
		return chain;
	}

	function causeSections(point) {
		const isOfProcess = ["write", "delete", "call"].includes(point.verb);
		if (index.record.meta.causes !== "recorded" && isOfProcess) {
			return section("Causes", element("p", {}, "This stage has no trace of what each process received, so causes are not known."));
		}
		const own = chainOf(point, "previous");
		const chain = chainOf(point, "cause");
		const others = (point.seen ?? []).map((number) => index.byNumber.get(number)).filter(Boolean);
		const effects = index.effects.get(point.number) ?? [];
		const isSure = chain.every(({ from }) => from.link === "caused");
		const othersTitle = point.violates !== undefined || point.verb === "verdict" ? "Main events of what the failure names, and what was received before" : "Also received just before, perhaps related";
		return [
			...(own.length > 0 ? section("Its own history, the latest first", ...listed("ol", own.map(({ at }) => link(at)), 3)) : []),
			...(chain.length > 0 ? section(isSure ? "What led to it, the latest first" : "What came before, the latest first", ...listed("ol", chain.map(({ from, at }) => link(at, undefined, HOWS[from.link] ?? "came before")))) : []),
			...(others.length > 0 ? section(othersTitle, ...listed("ul", others.map((other) => link(other)))) : []),
			...(effects.length > 0 ? section("What followed", ...listed("ul", effects.map((effect) => link(effect)))) : []),
		];
	}

	function writeSections(point) {
		const parts = [];
		const before = point.previous === undefined ? {} : objectAt(index, index.byNumber.get(point.previous)) ?? {};
		if (point.diff !== undefined) {
			const note = point.cut ? element("p", { class: "note" }, "The change is large: parts of it were left out of the record.") : null;
			const table = diffTable(before, point.diff, (path) => {
				field = path;
				draw(true);
			});
			parts.push(...section(point.previous === undefined ? "The new object" : "The change (choose a field for all its writes)", ...[note, table].filter(Boolean)));
		}
		if (field !== null && point.object !== undefined) parts.push(...fieldSection(point, field));
		if (point.object !== undefined) parts.push(...objectSection(point));
		return parts;
	}

	function fieldSection(point, path) {
		const writes = writesOf(index, point.object, path).map((write) => {
			const value = shown(valueAt(write.diff, path) ?? "(removed)");
			const by = write.by ? ` by ${actorName(index, write.by)}` : "";
			return link(write, `${write.number}  ${relative(write.at)}${by}: ${shortened(value, 90)}`);
		});
		return section(`All writes of ${path.join(".")}`, ...listed("ol", writes));
	}

	function objectSection(point) {
		const object = objectAt(index, point);
		const body = element("pre", { class: "object" }, "");
		const details = element("details", {}, element("summary", {}, "The object at this moment"));
		details.addEventListener("toggle", () => {
			body.textContent = object === null ? "it does not exist" : JSON.stringify(object, null, 2);
		});
		if (point.incomplete) details.append(element("p", { class: "note" }, "Earlier writes of this object are not part of the record: fields may be missing."));
		details.append(body);
		const others = index.writes.get(point.object) ?? [];
		const position = others.indexOf(point);
		const neighbours = [others[position - 1], others[position + 1]].map((other, side) =>
			other ? linkButton(side === 0 ? "previous write" : "next write", () => state.select(other.number)) : null,
		);
		return section("Object", fact("name", point.object), element("p", {}, `write ${position + 1} of ${others.length}  `, neighbours[0], "  ", neighbours[1]), details);
	}

	function faultLink(point) {
		const begin = beginOfFault(index, point);
		return begin ? linkButton(`${point.fault}, event ${begin.number}`, () => state.select(begin.number)) : point.fault;
	}

	/** After a conflict, the request is repeated with the newest version. */
	function conflict(point) {
		const isConflict = point.verb === "request" && point.code === "409";
		const isRepeated = (other) => other.number > point.number && other.verb === "write" && (other.by ?? point.by) === point.by;
		const next = isConflict && index.byActor.get(point.actor)?.find(isRepeated);
		return next ? element("p", {}, element("b", {}, "repeated: "), linkButton(`succeeded as event ${next.number}`, () => state.select(next.number))) : null;
	}

	function draw(force = false) {
		const point = state.selected === null ? undefined : index.byNumber.get(state.selected);
		const number = point?.number ?? null;
		if (number === shownNumber && !force) return;
		if (!force) field = null;
		shownNumber = number;
		if (!point) {
			fill(box, element("h2", {}, "No event is selected"), element("p", {}, "Choose an event in the list or in the timeline, or press ] for the first violation. ? shows all keys."));
			return;
		}
		const check = point.violates === undefined ? undefined : index.record.checks[point.violates];
		const absolute = new Date(Date.parse(index.record.meta.started) + point.at / 1000).toISOString();
		fill(
			box,
			element("h2", {}, `Event ${point.number}: ${point.verb}`),
			check ? element("p", { class: "state-violated" }, `▲ It violates ${check.name}: ${shortened(check.statement, 160)}`) : null,
			check?.unmet?.length > 0 ? unmetTable(check.unmet) : element("p", {}, point.summary),
			...section("Facts"),
			fact("time", `${relative(point.at)} (${absolute})`),
			fact("belongs to", actorName(index, point.actor)),
			point.by ? fact("performed by", actorName(index, point.by)) : null,
			point.code ? fact("code", point.code) : null,
			point.fault ? element("p", {}, element("b", {}, "changed by fault: "), faultLink(point)) : null,
			conflict(point),
			point.revision === undefined ? null : fact("resource version", String(point.revision)),
			point.step === undefined ? null : fact("during step", String(point.step)),
			...causeSections(point),
			...writeSections(point),
		);
	}
	return () => draw();
}
