// The dashboard: follows the world by server-sent events.

import { grouped } from "./text.js";
import { button, byId, element, fill } from "./dom.js";
import { Colors, styleOf } from "./palette.js";
import { World } from "./model.js";
import { topology } from "./topology.js";
import { owners, problems, selection } from "./entity.js";
import { chaos } from "./chaos.js";
import { timeline } from "./timeline.js";
import { playback } from "./play.js";

/** The states of the legend. */
const LEGEND = ["Pending", "Running", "Unknown", "NotReady", "Terminating", "stopped"];

/** What the dashboard shows, and what is selected. */
class View {
	constructor() {
		this.world = new World();
		this.colors = new Colors();
		this.search = "";
		/** @type {string | null} the key of the selected tile */
		this.selected = null;
		/** @type {string | null} the id of the owner whose machines are highlighted */
		this.chosenOwner = null;
		/** @type {(() => void)[]} */
		this.drawings = [];
	}

	/** The selected tile. */
	tile() {
		return this.world.tiles().find((tile) => tile.key === this.selected);
	}

	/** @param {string | null} key */
	select(key) {
		this.selected = key;
		this.changed();
	}

	/** @param {string | null} owner */
	chooseOwner(owner) {
		this.chosenOwner = owner;
		this.changed();
	}

	/** Shows a change, once for all changes of one frame. */
	changed() {
		if (this.scheduled) return;
		this.scheduled = true;
		requestAnimationFrame(() => {
			this.scheduled = false;
			const begin = performance.now();
			for (const draw of this.drawings) draw();
			/** The time of the last drawing, for measurements. */
			this.took = performance.now() - begin;
		});
	}
}

/** The head: numbers, the search, the plan, the connection. */
function liveHead(view) {
	const counts = element("span", { class: "counts", id: "counts" });
	const search = element("input", { id: "dim", type: "search", placeholder: "Dim all but …", "aria-label": "Dim all tiles whose name does not contain", oninput: () => {
		view.search = search.value.trim();
		view.changed();
	} });
	const result = element("span", { role: "status", id: "saved" });
	const save = button("Save as plan", () => void savePlan(result), { id: "save" });
	const connection = element("span", { class: "connection", id: "connection", role: "status" }, "connecting");
	fill(byId("live-head"), element("h1", {}, "Drydock"), counts, search, save, result, connection);
	const kinds = [["deployment", "deployments"], ["set", "sets"], ["machine", "machines"], ["vm", "VMs"], ["node", "nodes"]];
	return {
		draw: () => {
			const numbers = new Map();
			for (const entity of view.world.entities.values()) numbers.set(entity.kind, (numbers.get(entity.kind) ?? 0) + 1);
			fill(counts, ...kinds.map(([kind, name]) => element("span", {}, element("b", {}, grouped(numbers.get(kind) ?? 0)), ` ${name}`)));
			const bad = view.world.tiles().filter((tile) => tile.bad).length;
			byId("topology-head").textContent = view.world.tiles().length === 0 ? "There are no machines and nodes yet." : bad > 0 ? `▲ ${bad} of ${view.world.tiles().length} have a problem` : `${view.world.tiles().length} without a problem`;
		},
		connection: (text, lost) => {
			connection.textContent = text;
			connection.className = lost ? "connection lost" : "connection";
		},
	};
}

/** Downloads the session as a plan. */
async function savePlan(result) {
	const answer = await fetch("/api/plan");
	const text = await answer.text();
	if (!answer.ok) {
		result.textContent = text;
		return;
	}
	const url = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
	element("a", { href: url, download: "session.yaml" }).click();
	URL.revokeObjectURL(url);
	result.textContent = "saved as session.yaml: drydock run --plan session.yaml --stage sim";
}

/** Follows the changes of the world. The browser connects again by itself, and names the last change that it has. */
function follow(view, connection, onChange) {
	const events = new EventSource(`/api/events?after=${view.world.number}`);
	events.onopen = () => connection("live", false);
	events.onerror = () => connection(events.readyState === EventSource.CLOSED ? "the connection is lost: reload the page" : "the connection is lost: connecting again", true);
	events.onmessage = (message) => {
		const changes = JSON.parse(message.data);
		view.world.apply(changes);
		view.changed();
		onChange(changes);
	};
}

async function startLive() {
	const settings = await (await fetch("/api/state")).json();
	const view = new View();
	view.world.apply(settings.changes);
	// For the console of the browser and for tests.
	window.drydock = view;
	const head = liveHead(view);
	const play = playback(settings.playback);
	view.drawings.push(head.draw, topology(view), owners(view), problems(view), selection(view));
	// A simulated world has its faults in its plan.
	const faults = settings.faults.length > 0 ? chaos(view, settings) : null;
	if (faults) view.drawings.push(faults.draw);
	fill(byId("legend"), ...LEGEND.map((label) => {
		const key = element("span", {}, label);
		key.style.setProperty("--color", `var(${styleOf({ class: "phase", label }).variable})`);
		return key;
	}), element("span", {}, "a bar at the lower edge: a problem"));
	window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
		view.colors.forget();
		view.changed();
	});
	new ResizeObserver(() => view.changed()).observe(byId("topology-scroll"));
	view.changed();
	const refresh = await timeline(view.colors, play.keys);
	follow(view, head.connection, (changes) => {
		if (changes.playback) play.update(changes.playback);
		faults?.active(changes.active);
		refresh();
	});
}

startLive().catch((error) => {
	byId("live-head").textContent = `The dashboard cannot be shown: ${error}. Open the URL that drydock printed.`;
});
