// Creates elements. All texts of a record become text nodes: no text is ever parsed as HTML.

/** @returns {any} */
export function byId(id) {
	return document.getElementById(id);
}

/**
 * An element with attributes, event handlers (`onclick`) and children.
 * @param {Object<string, any>} attributes
 * @param {...(Node | string | null)} children
 * @returns {any}
 */
export function element(tag, attributes, ...children) {
	const created = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (value === null || value === undefined || value === false) continue;
		if (typeof value === "function") created.addEventListener(name.slice(2), value);
		else created.setAttribute(name, value === true ? "" : String(value));
	}
	created.append(...children.filter((child) => child !== null));
	return created;
}

/**
 * Replaces the children of an element.
 * @param {Element} parent
 * @param {...(Node | string | null)} children
 */
export function fill(parent, ...children) {
	parent.replaceChildren(...children.filter((child) => child !== null));
}

/** @param {() => void} onclick */
export function button(text, onclick, attributes = {}) {
	return element("button", { type: "button", onclick, ...attributes }, text);
}

/** A button that looks like a link. */
export function linkButton(text, onclick, attributes = {}) {
	return button(text, onclick, { class: "link", ...attributes });
}

/**
 * Sizes a canvas for the screen, and returns its context in CSS pixels.
 * @returns {{context: CanvasRenderingContext2D, width: number, height: number}}
 */
export function prepared(canvas, height) {
	const scale = window.devicePixelRatio || 1;
	const width = canvas.clientWidth || canvas.parentElement.clientWidth;
	const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
	if (canvas.width !== wide || canvas.height !== high) {
		canvas.width = wide;
		canvas.height = high;
		canvas.style.height = `${height}px`;
	}
	const context = canvas.getContext("2d");
	context.setTransform(scale, 0, 0, scale, 0, 0);
	context.clearRect(0, 0, width, height);
	return { context, width, height };
}

/**
 * A table that scrolls sideways.
 * @param {string[]} names of the columns
 */
export function table(names, rows, caption, look) {
	const head = names.map((name) => element("th", { scope: "col" }, name));
	const title = caption ? element("caption", {}, caption) : null;
	return element("div", { class: "wrap" }, element("table", { class: look }, title, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}
