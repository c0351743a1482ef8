// Texts of times and numbers.

/** The time since the start of the scenario, exact to the millisecond below one hour. */
export function relative(micros) {
	const total = Math.max(0, micros) / 1e6;
	const hours = Math.floor(total / 3600);
	const minutes = Math.floor(total / 60) % 60;
	const seconds = total % 60;
	if (hours > 0) return `+${hours}h${String(minutes).padStart(2, "0")}m${String(Math.floor(seconds)).padStart(2, "0")}s`;
	if (minutes > 0) return `+${minutes}m${seconds.toFixed(3).padStart(6, "0")}s`;
	return `+${seconds.toFixed(3)}s`;
}

/** A duration in its largest units. */
export function duration(micros) {
	const seconds = micros / 1e6;
	if (seconds < 1) return `${Math.round(micros / 1000)} ms`;
	if (seconds < 120) return `${Number(seconds.toFixed(1))} s`;
	if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
	return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}

/** A number with commas. `toLocaleString` needs 20 ms for its first one. */
export function grouped(count) {
	return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A number and its noun. */
export function counted(count, noun) {
	return `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A text of at most that many characters. */
export function shortened(text, most) {
	return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
