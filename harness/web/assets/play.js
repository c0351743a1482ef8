// The playback of a simulated world: pause, one event, one step of the scenario, a speed, on to the violation.

import { button, byId, element, fill } from "./dom.js";
import { grouped, relative } from "./text.js";
import { post } from "./chaos.js";

/** The speeds of the choice: virtual seconds per second. */
const SPEEDS = [1, 10, 60, 300, 1000, 3600, 10000];
/** The words of the states. */
const STATES = { paused: "paused", runs: "running", seeks: "running at full speed" };
/** The time between two drawings of the clock, in milliseconds. */
const TICK = 100;

/**
 * Shows the controls of a world that can be paced.
 * @param {any} first the first status; `null`: the world cannot be paced
 * @returns {{update: (status: any) => void, keys: any[]}}
 */
export function playback(first) {
	if (!first) return { update: () => {}, keys: [] };
	const box = byId("play");
	let [status, received] = [first, performance.now()];
	const is = (state) => status.state === state;

	async function send(action, speed) {
		const answer = await post("/api/play", speed === undefined ? { action } : { action, speed });
		if (answer.ok) update(await answer.json());
		else say(await answer.text());
	}
	const toggle = () => void send(is("paused") ? "resume" : "pause");
	const faster = (by) => {
		speed.selectedIndex = Math.min(speed.options.length - 1, Math.max(0, speed.selectedIndex + by));
		void choose();
	};
	const choose = () => send("speed", Number(speed.value) || speed.value);
	const control = (id, text, key, action) => button(text, action, { id, "aria-keyshortcuts": key, title: `${text} (${key})` });
	const run = control("play-run", "Play", "Space", toggle);
	const buttons = [
		run,
		control("play-event", "Next event", "n", () => void send("event")),
		control("play-step", "Next step", "m", () => void send("step")),
		control("play-end", "Next violation or end", "v", () => void send("end")),
	];
	const speed = element("select", { id: "play-speed", onchange: () => void choose() }, ...SPEEDS.map((times) => element("option", { value: times }, `${grouped(times)}×`)), element("option", { value: "max" }, "as fast as possible"));
	const clock = element("span", { id: "play-clock", class: "clock" });
	const result = element("span", { id: "play-state", role: "status", tabindex: -1 });
	fill(box, ...buttons, element("label", {}, "Speed ", speed), clock, result);
	box.hidden = false;

	function say(text) {
		if (result.textContent !== text) result.textContent = text;
	}

	/** The virtual time: between two events it passes at the chosen speed. */
	function now() {
		const passes = is("runs") && typeof status.speed === "number" && typeof status.until === "number";
		if (!passes) return status.at;
		return Math.min(status.until, status.at + (performance.now() - received) * 1000 * status.speed);
	}

	function draw() {
		clock.textContent = relative(now());
	}

	function update(next) {
		if (next.revision < status.revision) return;
		[status, received] = [next, performance.now()];
		const { end } = status;
		run.textContent = is("paused") || end ? "Play" : "Pause";
		speed.value = String(status.speed);
		result.className = end && !end.passed ? "lost" : "";
		say(end ? `${end.passed ? "passed" : "▲ FAILED"}: ${end.sentence}` : STATES[status.state]);
		// A button that ends must not take the focus with it.
		if (end && box.contains(document.activeElement)) result.focus();
		for (const one of [...buttons, speed]) one.disabled = Boolean(end);
		draw();
	}

	update(first);
	setInterval(draw, TICK);
	const key = (name, shown, text, action) => ({ name, shown, text, action: () => is("ended") || action() });
	return {
		update,
		keys: [
			key(" ", "Space", "pause the world, or let it go on", toggle),
			key("n", "n", "the next event of the world", () => void send("event")),
			key("m", "m", "to the next step of the scenario", () => void send("step")),
			key("v", "v", "to the next violation, or to the end", () => void send("end")),
			key("<", "< >", "slower and faster", () => faster(-1)),
			key(">", null, "", () => faster(1)),
		],
	};
}
