// The colors, patterns and letters of states. A color is never the only sign: each state has a label, a letter or a pattern.

/** The variable of the style sheet, the letter and the pattern of each state. */
const STATES = {
	new: ["--s-new", "n", ""],
	registered: ["--s-new", "r", ""],
	Pending: ["--s-pending", "P", ""],
	pending: ["--s-pending", "p", ""],
	Running: ["--s-running", "R", ""],
	running: ["--s-running", "r", ""],
	Ready: ["--s-running", "R", ""],
	InPlaceUpdating: ["--s-pending", "I", "dots"],
	InPlaceUpdateSuccessful: ["--s-running", "I", ""],
	InPlaceUpdateFailed: ["--s-failed", "I", "rising"],
	Available: ["--s-running", "A", ""],
	Unknown: ["--s-unknown", "U", "dots"],
	NotReady: ["--s-failed", "N", "rising"],
	Failed: ["--s-failed", "F", "rising"],
	CrashLoopBackOff: ["--s-failed", "C", "rising"],
	Terminating: ["--s-terminating", "T", "falling"],
	stopping: ["--s-terminating", "s", "falling"],
	stopped: ["--s-stopped", "S", "falling"],
	terminated: ["--s-stopped", "t", "falling"],
	drain: ["--s-terminating", "d", "dots"],
	Succeeded: ["--s-stopped", "S", ""],
	leader: ["--s-leader", "L", ""],
	down: ["--s-down", "D", "rising"],
};

/**
 * @param {import("./record.js").Span} span
 * @returns {{variable: string, letter: string, pattern: string}}
 */
export function styleOf(span) {
	if (span.class === "fault") return { variable: "--s-fault", letter: "!", pattern: "rising" };
	if (span.class === "step") return { variable: "--s-step", letter: "", pattern: "" };
	const [phase, kept] = span.label.split(":");
	const [variable, letter, pattern] = STATES[phase] ?? ["--s-new", phase.slice(0, 1), "dots"];
	return { variable, letter, pattern: kept ? "dots" : pattern };
}

/** Reads colors from the style sheet, and remembers them until the theme changes. */
export class Colors {
	constructor() {
		this.forget();
	}

	forget() {
		this.style = getComputedStyle(document.documentElement);
		this.known = new Map();
	}

	get(variable) {
		let color = this.known.get(variable);
		if (color === undefined) {
			color = this.style.getPropertyValue(variable).trim();
			this.known.set(variable, color);
		}
		return color;
	}
}
