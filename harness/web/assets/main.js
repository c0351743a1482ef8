// Builds the page from the record in it.

import { byId, element, fill } from "./dom.js";
import { decode, indexed } from "./record.js";
import { relative } from "./text.js";
import { State } from "./state.js";
import { Colors } from "./palette.js";
import { overview } from "./overview.js";
import { charts } from "./chart.js";
import { lanes } from "./lanes.js";
import { list } from "./list.js";
import { detail } from "./detail.js";
import { checks } from "./checks.js";
import { head } from "./head.js";
import { printing } from "./print.js";
import { keys } from "./keys.js";

/**
 * The search and the buttons above the overview.
 * @param {State} state
 * @returns {() => void} draws them
 */
function tools(state) {
  const search = element("input", { id: "search", type: "search", placeholder: "Search events  ( / )", "aria-label": "Search events", oninput: () => state.find(search.value) });
  const fold = element("button", { type: "button", title: "Times without events take little space (g)", onclick: () => state.fold(!state.folded) }, "Fold idle time");
  const pods = element("button", { type: "button", title: "A row for each pod", onclick: () => togglePods() }, "Pods");
  const fit = element("button", { type: "button", title: "Show the whole run (f)", onclick: () => state.show(0, 1) }, "Fit");
  const next = element("button", { type: "button", title: "Next violation ( ] )", onclick: () => state.select(state.index.violations[0].number) }, "Violation");
  const help = element("button", { type: "button", "aria-label": "Keys", onclick: () => byId("help").showModal() }, "?");
  const range = element("span", { class: "range" });
  const togglePods = () => {
    state.pods = !state.pods;
    state.changed();
  };
  const all = [search, fit, fold, pods, state.index.violations.length > 0 ? next : null, help, range];
  fill(byId("tools"), ...all);
  return () => {
    if (document.activeElement !== search) search.value = state.search;
    fold.setAttribute("aria-pressed", String(state.folded));
    pods.setAttribute("aria-pressed", String(state.pods));
    range.textContent = `${relative(state.scale.time(state.from))} to ${relative(state.scale.time(state.to))}`;
  };
}

/** Shows why the record cannot be shown. */
function failed(error) {
  fill(byId("head"), element("h1", { class: "verdict" }, "The record in this page cannot be shown"), element("p", {}, `${error}. Use a browser of 2023 or later, or make the page again with \`drydock report\`.`));
}

async function start() {
  const index = indexed(await decode(byId("data").textContent));
  document.title = `${index.record.meta.verdict.passed ? "passed" : "FAILED"}: ${document.title}`;
  byId("main").hidden = false;
  const state = new State(index);
  head(index, (number) => state.select(number));
  const colors = new Colors();
  const drawings = [tools(state), overview(state, colors), lanes(state, colors), charts(state, colors), list(state), detail(state)];
  checks(state);
  printing(state);
  keys(state);
  const draw = () => drawings.forEach((one) => one());
  state.onChange(draw);
  new ResizeObserver(() => state.changed()).observe(byId("main"));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colors.forget();
    state.changed();
  });
  window.addEventListener("hashchange", () => state.restore());
  if (location.hash.length > 1) state.restore();
  else if (index.violations.length > 0) state.select(index.violations[0].number);
  draw();
}

start().catch(failed);
