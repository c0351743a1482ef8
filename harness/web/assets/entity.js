// The panes beside the topology: deployments and sets, problems, and the selection with its owners, conditions and events.

import { byId, element, fill, linkButton } from "./dom.js";
import { counted } from "./text.js";
import { described, nameOf } from "./model.js";

/** The most items of a list. */
const MOST_ITEMS = 100;

/** A list of which the rest is counted. */
function limited(items) {
	const rest = items.length - MOST_ITEMS;
	return element("ul", {}, ...items.slice(0, MOST_ITEMS), rest > 0 ? element("li", {}, `and ${rest} more`) : null);
}

/**
 * Shows the deployments and sets; one that is chosen lights its machines.
 * @returns {() => void} draws them
 */
export function owners(view) {
	const box = byId("owners");
	let shown = "";
	return () => {
		const all = [...view.world.of("deployment"), ...view.world.of("set")].sort((one, other) => (one.name < other.name ? -1 : 1));
		const text = JSON.stringify([all, view.chosenOwner]);
		if (text === shown) return;
		shown = text;
		const isChosen = (owner) => view.chosenOwner === owner.id;
		const item = (owner) =>
			element("li", {}, linkButton(`${owner.kind} ${owner.name}`, () => view.chooseOwner(isChosen(owner) ? null : owner.id), { "aria-pressed": String(isChosen(owner)) }), `  ${owner.state} ready`);
		fill(box, ...(all.length > 0 ? [element("h2", {}, "Deployments and sets (choose one to see its machines)"), limited(all.map(item))] : []));
	};
}

/**
 * Lists the tiles with a problem.
 * @returns {() => void} draws them
 */
export function problems(view) {
	const box = byId("problems");
	let shown = null;
	return () => {
		const tiles = view.world.tiles();
		if (tiles === shown) return;
		shown = tiles;
		const bad = tiles.filter((tile) => tile.bad);
		const item = (tile) => element("li", {}, linkButton(`${nameOf(tile)} ${tile.state}`, () => view.select(tile.key)));
		fill(box, element("h2", {}, bad.length > 0 ? `▲ ${counted(bad.length, "problem")}` : "No problems"), bad.length > 0 ? limited(bad.map(item)) : null);
	};
}

/**
 * Shows the selection.
 * @returns {() => void} draws it
 */
export function selection(view) {
	const box = byId("entity");
	let shown = "";
	const part = (title, items) => (items.length > 0 ? [element("h3", {}, title), limited(items.map((item) => element("li", {}, item)))] : []);

	async function details(id, token) {
		const answer = await fetch(`/api/details?id=${encodeURIComponent(id)}`);
		if (!answer.ok || token !== shown) return [];
		const found = await answer.json();
		const conditions = Array.isArray(found.conditions) ? found.conditions : [];
		return [
			...part("Owners", found.owners.map((owner) => `${owner.kind} ${owner.name}: ${owner.state}`)),
			...(found.lastOperation?.description ? part("Last operation", [`${found.lastOperation.state ?? ""} ${found.lastOperation.description}`]) : []),
			...part(`Conditions of ${found.entity.name}`, conditions.map((one) => `${one.type} ${one.status} ${one.reason ?? ""} ${one.message ?? ""}`)),
			...part(`Pods of ${found.entity.name}`, found.pods.map((pod) => `${pod.name}: ${pod.phase}`)),
			...part(`Events of ${found.entity.name}`, found.events.map((one) => `${one.at ?? ""} ${one.reason ?? ""}: ${one.message ?? ""}`)),
		];
	}

	async function draw() {
		const tile = view.tile();
		const owner = view.world.entities.get(view.chosenOwner);
		const token = JSON.stringify([tile?.key, tile && described(tile), owner]);
		if (token === shown) return;
		shown = token;
		if (!tile && !owner) {
			fill(box, element("h2", {}, "Nothing is selected"), element("p", {}, "Choose a tile, or press an arrow key in the topology."));
			return;
		}
		const heads = [
			tile ? [element("h2", {}, nameOf(tile)), ...described(tile).split("; ").map((line) => element("p", {}, line))] : [],
			owner ? [element("h2", {}, `${owner.kind} ${owner.name}`), element("p", {}, `${owner.state} ready`)] : [],
		];
		fill(box, ...heads.flat());
		const parts = [[tile?.machine, tile?.node], [owner]].map((of) => Promise.all(of.filter(Boolean).map(({ id }) => details(id, token))));
		const found = await Promise.all(parts);
		if (token === shown) fill(box, ...heads.flatMap((head, number) => [...head, ...found[number].flat()]));
	}
	return () => void draw();
}
