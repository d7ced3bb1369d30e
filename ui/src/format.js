// How amounts, times and foreign texts are written. Durations and sizes read as in callsheet/report/humanize.py.

// Where any JSON may stand: a text stays one, and what is none is written as JSON; an amount is a number, or null; a list is one.
export const str = (value, indent) => (typeof value === "string" ? value : value == null ? "" : (JSON.stringify(value, null, indent) ?? ""));
export const num = (value) => (Number.isFinite(value) ? value : null);
export const list = (value) => (Array.isArray(value) ? value : value == null ? [] : [value]);

// Python rounds a tie to the even digit, and JavaScript to the larger one.
const whole = (value) => {
  const floor = Math.floor(value);
  return value - floor === 0.5 ? floor + (floor % 2) : Math.round(value);
};
const tenth = (value) => (value * 4 === Math.floor(value * 4) && (value * 4) % 4 === 1 ? value - 0.05 : value).toFixed(1);
const two = (value) => String(value).padStart(2, "0");

export function bytes(count) {
  if (num(count) == null) return "";
  if (count < 1000) return `${whole(count)} B`;
  let unit = "";
  for (unit of ["kB", "MB", "GB"]) {
    count /= 1000;
    if (count < 999.5) break;
  }
  return count >= 9.95 ? `${whole(count)} ${unit}` : `${tenth(count)} ${unit}`;
}

// A duration: `320 ms`, `4.2 s`, `3 min 05 s`, `2 h 03 min`, `1 d 04 h`, as `callsheet.report.humanize` has it.
// More digits than 1 are for times that lie close together.
export function durationText(ms, digits = 1) {
  if (num(ms) == null) return "";
  if (digits > 1 && ms < 59_950) return ms < 999.5 ? `${+ms.toFixed(digits - 1)} ms` : `${(ms / 1000).toFixed(digits)} s`;
  if (ms < 999.5) return `${whole(ms)} ms`;
  if (ms / 1000 < 59.95) return `${tenth(ms / 1000)} s`;
  const seconds = whole(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${two(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${two(minutes % 60)} min` : `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
}

// An amount of money, as `callsheet.report.humanize` has it: `$2.00`, `$0.0032`, `1,204.50 EUR`.
export function money(amount, currency) {
  const places = amount >= 0.995 || amount.toFixed(4) === `${amount.toFixed(2)}00` ? 2 : 4;
  const digits = { minimumFractionDigits: places, maximumFractionDigits: places };
  const isTiny = amount > 0 && amount < 0.00005;
  const number = isTiny ? amount.toExponential(1).replace(/e-(\d)$/, "e-0$1") : Number(amount.toFixed(places)).toLocaleString("en", digits);
  return currency === "USD" ? `$${number}` : `${number} ${currency}`.trim();
}

export const plural = (count, noun, nouns) => `${count.toLocaleString("en")} ${count === 1 ? noun : (nouns ?? `${noun}s`)}`;

// When something was: the time today, the date before. `at` is in seconds since 1970.
export function clock(at) {
  const date = new Date(num(at) * 1000);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time.slice(0, 5)}`;
}

// What a terminal may be sent beside text: colours, titles, links, cursor moves, character sets.
export const ESCAPES = /\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~]|$)/g;

// A text in which nothing moves the cursor, hides, or turns around what stands beside it.
const HIDDEN =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
// The same in JSON, where such a character can be written as an escape.
export const escaped = (json) =>
  json.replace(HIDDEN, (char) => Array.from(char.split(""), (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
export const plain = (text) => str(text).replace(/\r\n?/g, "\n").replace(HIDDEN, "\ufffd");

// The beginning of a text as one line, for rows and tooltips.
export const oneLine = (text, length = 300) => {
  const whole = str(text);
  return plain(whole.slice(0, length).replace(/\s+/g, " ").trim()) + (whole.length > length ? "…" : "");
};

// Asked with words of agents: without a prototype it has no more than what is written here.
const STATUS_WORDS = { __proto__: null, in_progress: "running", waiting: "waits for an answer" };
export const statusWord = (status) => STATUS_WORDS[status] ?? (oneLine(status, 40) || "unknown");
// A status as the name of a class: other words must not style the page.
const STATUSES = ["pending", "in_progress", "waiting", "paused", "completed", "failed", "cancelled"];
export const statusClass = (status) => (STATUSES.includes(status) ? status : "other");
