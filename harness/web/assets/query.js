// The search: words that must occur, and `name:value` for single fields.

/** Fields that a search can name. */
const FIELDS = ["verb", "actor", "by", "object", "code", "fault", "step", "is"];

/**
 * @param {string} text
 * @returns {{field: string, value: string, not: boolean}[]}
 */
export function parsed(text) {
  const words = text.match(/-?(?:\w+:)?(?:"[^"]*"|[^\s"]+)/g) ?? [];
  return words.map((word) => {
    const not = word.startsWith("-") && word.length > 1;
    const rest = not ? word.slice(1) : word;
    const split = rest.indexOf(":");
    const name = split > 0 ? rest.slice(0, split) : "";
    const field = FIELDS.includes(name) ? name : "";
    const value = (field ? rest.slice(split + 1) : rest).replaceAll('"', "").toLowerCase();
    return { field, value, not };
  });
}

/**
 * Whether an event matches a search.
 * @param {import("./record.js").Point} point
 * @param {{field: string, value: string, not: boolean}[]} terms
 * @returns {boolean}
 */
export function matches(point, terms) {
  return terms.every(({ field, value, not }) => matchesTerm(point, field, value) !== not);
}

/**
 * @param {any} point
 * @param {string} field
 * @param {string} value
 * @returns {boolean}
 */
function matchesTerm(point, field, value) {
  if (field === "is") {
    if (value === "violation") return point.violates !== undefined;
    if (value === "failed") return point.code !== undefined && point.code !== "OK";
    return false;
  }
  if (field === "step") return String(point.step ?? "") === value;
  if (field) return String(point[field] ?? "").toLowerCase().includes(value);
  const text = `${point.number} ${point.summary} ${point.actor} ${point.object ?? ""} ${point.by ?? ""} ${point.fault ?? ""}`;
  return text.toLowerCase().includes(value);
}
