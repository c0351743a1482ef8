// The topology: a block for each zone, a tile for each VM with its node and pods. From afar a tile is a colored square.

import { byId, prepared } from "./dom.js";
import { shortened } from "./text.js";
import { styleOf } from "./palette.js";
import { described, nameOf } from "./model.js";

/** The edges of tiles, the largest first: with text and pods, with a letter, only a color. */
const EDGES = [96, 64, 44, 26, 16, 10, 7, 5];
const HEADING_HEIGHT = 20;
const SPACE = 10;
/** The height that should be enough. */
const BEST_HEIGHT = 420;
/** Edges from which a tile has a name, pods, and a letter. */
const [WITH_NAME, WITH_PODS, WITH_LETTER] = [64, 26, 16];

/**
 * Places for all tiles.
 * @param {import("./model.js").Tile[]} tiles by zone
 */
export function placed(tiles, width) {
	const zones = [];
	for (const tile of tiles) {
		if (zones.at(-1)?.name !== tile.zone) zones.push({ name: tile.zone, tiles: [], y: 0 });
		zones.at(-1).tiles.push(tile);
	}
	for (const edge of EDGES) {
		const columns = Math.max(1, Math.floor((width - SPACE) / edge));
		let y = 0;
		for (const zone of zones) {
			zone.y = y;
			y += HEADING_HEIGHT + Math.ceil(zone.tiles.length / columns) * (edge >= WITH_NAME ? edge * 0.62 : edge) + SPACE;
		}
		if (y <= BEST_HEIGHT || edge === EDGES.at(-1)) return { zones, edge, high: edge >= WITH_NAME ? edge * 0.62 : edge, columns, height: Math.max(60, y) };
	}
	return { zones, edge: 5, high: 5, columns: 1, height: 60 };
}

/** @typedef {{world: import("./model.js").World, colors: import("./palette.js").Colors, search: string, selected: string | null, chosenOwner: string | null, select: (key: string | null) => void}} View */

/**
 * Shows the topology.
 * @param {View} view
 * @returns {() => void} draws it
 */
export function topology(view) {
	const [canvas, tip] = [byId("topology"), byId("tip")];
	let layout = placed([], 100);
	let [shownTiles, shownWidth] = [null, 0];

	const isHighlighted = (tile) => {
		if (view.search && ![tile.machine, tile.vm, tile.node].some((one) => one?.name.toLowerCase().includes(view.search.toLowerCase()))) return false;
		return view.chosenOwner === null || view.world.owners(tile.machine).some((owner) => owner.id === view.chosenOwner);
	};

	function draw() {
		const tiles = view.world.tiles();
		const width = canvas.parentElement.clientWidth;
		if (tiles !== shownTiles || width !== shownWidth) {
			layout = placed(tiles, width);
			[shownTiles, shownWidth] = [tiles, width];
		}
		const { context } = prepared(canvas, layout.height);
		context.textBaseline = "middle";
		for (const zone of layout.zones) {
			context.fillStyle = view.colors.get("--text");
			context.font = "600 11.5px system-ui, sans-serif";
			context.fillText(`Zone ${zone.name} (${zone.tiles.length})`, 4, zone.y + HEADING_HEIGHT / 2);
			drawZone(context, zone);
		}
	}

	function drawZone(context, zone) {
		const { edge, high, columns } = layout;
		const isSearched = view.search !== "" || view.chosenOwner !== null;
		zone.tiles.forEach((tile, number) => {
			const x = 4 + (number % columns) * edge;
			const y = zone.y + HEADING_HEIGHT + Math.floor(number / columns) * high;
			context.globalAlpha = isSearched && !isHighlighted(tile) ? 0.15 : 1;
			drawTile(context, tile, x, y, edge - (edge > 8 ? 2 : 1), high - (high > 8 ? 2 : 1));
			if (tile.key === view.selected) {
				context.globalAlpha = 1;
				context.strokeStyle = view.colors.get("--focus");
				context.lineWidth = 2;
				context.strokeRect(x - 1, y - 1, edge, high);
				context.lineWidth = 1;
			}
		});
		context.globalAlpha = 1;
	}

	function drawTile(context, tile, x, y, width, height) {
		const { variable, letter } = styleOf({ class: "phase", label: tile.state.split(":")[0] });
		context.fillStyle = view.colors.get(variable);
		context.fillRect(x, y, width, height);
		const ink = view.colors.get("--ink");
		context.fillStyle = ink;
		// A problem is also a form: a bar across the tile.
		if (tile.bad) context.fillRect(x, y + height - Math.max(1, height / 5), width, Math.max(1, height / 5));
		// Without a letter, a state on the way to Running is a bar at the side.
		else if (letter !== "R" && width < WITH_LETTER - 2) context.fillRect(x, y, Math.max(1, width / 5), height);
		if (width >= WITH_NAME - 2) {
			context.font = "10.5px system-ui, sans-serif";
			context.fillText(shortened(nameOf(tile), Math.floor(width / 6)), x + 4, y + 9);
			context.fillText(tile.state, x + 4, y + 22);
		} else if (width >= WITH_LETTER - 2) {
			context.font = "9px system-ui, sans-serif";
			context.fillText(letter, x + 3, y + 7);
		}
		if (width >= WITH_PODS - 2) drawPods(context, tile, x + 3, y + height - 9, width - 6, ink);
	}

	/** Pods as dots: filled ones run, rings wait, crosses failed. */
	function drawPods(context, tile, x, y, width, ink) {
		const pods = tile.node?.pods;
		if (!pods) return;
		context.strokeStyle = ink;
		const most = Math.floor(width / 6);
		const marks = [...Array(Math.min(most, pods.failed)).fill("x"), ...Array(Math.min(most, pods.pending)).fill("o"), ...Array(Math.min(most, pods.running)).fill("r")].slice(0, most);
		marks.forEach((mark, number) => {
			const at = x + 2 + number * 6;
			context.beginPath();
			if (mark === "x") {
				context.moveTo(at - 2, y - 2);
				context.lineTo(at + 2, y + 2);
				context.moveTo(at + 2, y - 2);
				context.lineTo(at - 2, y + 2);
			} else {
				context.arc(at, y, 1.8, 0, 7);
			}
			if (mark === "r") context.fill();
			else context.stroke();
		});
	}

	/** The tile at a place, and its number. */
	function at(event) {
		const box = canvas.getBoundingClientRect();
		const [x, y] = [event.clientX - box.left, event.clientY - box.top];
		const zone = layout.zones.findLast((one) => one.y + HEADING_HEIGHT <= y);
		const column = Math.floor((x - 4) / layout.edge);
		if (!zone || column < 0 || column >= layout.columns) return undefined;
		return zone.tiles[Math.floor((y - zone.y - HEADING_HEIGHT) / layout.high) * layout.columns + column];
	}

	canvas.addEventListener("pointermove", (event) => {
		const tile = at(event);
		tip.hidden = tile === undefined;
		if (tile === undefined) return;
		tip.textContent = described(tile);
		tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 430)}px`;
		tip.style.top = `${event.clientY + 16}px`;
	});
	canvas.addEventListener("pointerleave", () => {
		tip.hidden = true;
	});
	canvas.addEventListener("click", (event) => view.select(at(event)?.key ?? null));
	canvas.addEventListener("keydown", (event) => {
		const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: layout.columns, ArrowUp: -layout.columns };
		const by = steps[event.key];
		if (by === undefined) return;
		event.preventDefault();
		event.stopPropagation();
		const tiles = view.world.tiles();
		const now = tiles.findIndex((tile) => tile.key === view.selected);
		const next = tiles[now < 0 ? 0 : Math.min(tiles.length - 1, Math.max(0, now + by))];
		if (next) view.select(next.key);
	});
	return draw;
}
