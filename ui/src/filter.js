// The language in which people choose calls: `tool:bash status:failed dur>2s path:src/ text:"timed out"`.
// Over the calls of a trace it is what callsheet/history/filters.py is over the history: tests/data/filters.json
// has examples that both are tested with.
import { ESCAPES, str } from "./format.js";
import { SOURCES, whoOf } from "./who.js";

const TERM = /(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+/g;
const PARTS = /^(-?)(?:([\p{L}\p{N}_]+)([:<>]))?(.*)$/su;
const WORD = /[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]|[\p{L}\p{N}]+/gu;
const MILLISECONDS = { ms: 1, s: 1e3, m: 60e3, min: 60e3, h: 3600e3 };
const LONGEST = 4000;
const MOST_WORDS = 100;

const STATUSES = [
  "open", "pending", "in_progress", "completed", "failed", "cancelled", "paused",
  "denied", "timeout", "exit_code", "tool_error", "exception", "abandoned",
];
const KINDS = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"];

class Wrong extends Error {}

// Words: runs of letters and digits in lower case, without accents.
const words = (text) =>
  (str(text).match(WORD) ?? []).flatMap((word) => {
    const plain = word.toLowerCase().normalize("NFD").replace(/[\u0300-\u036f]/g, "").normalize("NFC");
    return (plain.match(WORD) ?? []).map((part) => part.slice(0, 64));
  });

function texts(value, found = []) {
  if (typeof value === "string") found.push(value);
  else if (value && typeof value === "object") for (const one of Object.values(value)) texts(one, found);
  return found;
}

// The words of a call by field, made once: title and name, input, paths, output.
const known = new WeakMap();
function fieldsOf(call) {
  if (!known.has(call)) {
    const blocks = (call.content ?? []).map((item) => item?.content ?? item);
    const output = blocks.filter((one) => one?.type === "text").map((one) => str(one.text));
    const diffs = blocks.filter((one) => one?.type === "diff");
    const paths = [...(call.locations ?? []).map((one) => str(one?.path)), ...diffs.map((one) => str(one.path))];
    output.push(...diffs.map((one) => str(one.newText)), ...Object.values(call.terminals ?? {}).map((one) => str(one).replace(ESCAPES, "")));
    const fields = [`${call.title} ${call.name}`, texts(call.input).join(" "), [...new Set(paths)].join(" "),
      (output.length ? output : texts(call.output)).join("\n")];
    known.set(call, fields.map((text) => ` ${words(text).join(" ")} `));
  }
  return known.get(call);
}

const phrase = (fields, value) => {
  const wanted = ` ${words(value).join(" ")}`; // the last word may go on
  return fields.some((field) => field.includes(wanted));
};
const part = (where, what) => str(where).toLowerCase().includes(what.toLowerCase());
const isOpen = (call) => call.ended == null;

const FIELDS = {
  __proto__: null,
  tool: (call, v) => part(call.name, v),
  status: (call, v) => (v === "open" ? isOpen(call) : call.status === v || call.reason === v),
  kind: (call, v) => (call.kind || "other") === v,
  session: (call, v) => part(call.session, v),
  user: (call, v, trace) => part(whoOf(call, trace).user, v),
  host: (call, v, trace) => part(whoOf(call, trace).host, v),
  agent: (call, v, trace) => part(whoOf(call, trace).agent, v),
  client: (call, v, trace) => part(whoOf(call, trace).client, v),
  workspace: (call, v, trace) => part(trace.sessions?.[call.session], v),
  source: (call, v, trace) => part(whoOf(call, trace).source, v),
  id: (call, v) => part(call.id, v),
  path: (call, v) => phrase(fieldsOf(call).slice(1, 3), v),
  text: (call, v) => phrase(fieldsOf(call), v),
  is: (call, v) => IS[v](call),
};
const IS = {
  open: isOpen,
  repaired: (call) => (call.repaired ?? []).length > 0,
  asked: (call) => call.approvals.some((one) => (one.by ?? "user") === "user"),
  child: (call) => !!call.parent,
};
const NUMBERS = {
  __proto__: null,
  // A call that was denied has never run.
  dur: (call) => (isOpen(call) || call.reason === "denied" ? null : (call.ended - (call.started ?? call.announced)) * 1000),
  size: (call) => call.size,
};

// What may be written, for suggestions.
export const NAMES = [
  "tool:", "path:", "text:", "session:", "user:", "host:", "agent:", "client:", "workspace:", "id:", "dur>", "dur<", "size>", "size<", "since:", "until:",
  ...STATUSES.map((name) => `status:${name}`), ...KINDS.map((name) => `kind:${name}`), ...Object.keys(IS).map((name) => `is:${name}`),
  ...Object.keys(SOURCES).map((name) => `source:${name}`),
];

// Return a test for calls, and what is wrong with the terms that are not understood. These do not filter.
export function matcher(text, trace = null, now = Date.now() / 1000) {
  if (text.length > LONGEST) {
    return { test: () => true, wrong: [`${text.slice(0, 20)}…: a filter has at most ${LONGEST} characters`] };
  }
  const tests = [];
  const wrong = [];
  let count = 0;
  for (const [whole] of text.matchAll(TERM)) {
    try {
      const { test, weight } = term(whole, trace, now);
      tests.push(test);
      count += weight;
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      count++;
      wrong.push(`${whole}: ${error.message}`);
    }
  }
  if (count > MOST_WORDS) return { test: () => true, wrong: [`${text.slice(0, 20)}…: a filter has at most ${MOST_WORDS} words`] };
  return { test: (call) => tests.every((one) => one(call)), wrong };
}

function term(whole, trace, now) {
  const [, minus, name, sign, raw] = whole.match(PARTS);
  const value = unquoted(raw);
  const field = name ? name.toLowerCase() : "text";
  const test = tested(field, sign, value, trace, now);
  const weight = field === "text" || field === "path" ? words(value).length : 1;
  return { test: minus ? (call) => !test(call) : test, weight };
}

function tested(field, sign, value, trace, now) {
  if (NUMBERS[field]) {
    if (sign === ":") throw new Wrong(`${field} is compared: ${field}>… or ${field}<…`);
    const limit = field === "dur" ? milliseconds(value) : byteCount(value);
    return (call) => {
      const found = NUMBERS[field](call);
      return found != null && (sign === ">" ? found > limit : found < limit);
    };
  }
  if (sign && sign !== ":") throw new Wrong(`only dur and size are compared; expected ${field}:…`);
  if (field === "since" || field === "until") return dated(field, value, trace, now);
  if (!FIELDS[field]) {
    const names = [...Object.keys(FIELDS), "since", "until", "dur", "size"].join(", ");
    throw new Wrong(`there is no ${field}; expected one of ${names}, or the text in quotes: "…"`);
  }
  const wanted = checked(field, value);
  return (call) => FIELDS[field](call, wanted, trace);
}

function checked(field, value) {
  if (field === "text" || field === "path") {
    if (!words(value).length) throw new Wrong("there is no word in it");
  } else if (field === "status" || field === "is" || (field === "kind" && !value.startsWith("_"))) {
    const may = { status: STATUSES, is: Object.keys(IS), kind: KINDS }[field];
    if (!may.includes(value.toLowerCase())) throw new Wrong(`expected one of ${may.join(", ")}`);
    return value.toLowerCase();
  } else if (!value) throw new Wrong("expected something after the colon");
  return value;
}

function unquoted(raw) {
  if (!raw.startsWith('"')) return raw;
  return raw.slice(1, raw.length > 1 && raw.endsWith('"') ? -1 : undefined).replace(/\\(.)/g, "$1");
}

function milliseconds(value) {
  const [, digits, unit] = value.match(/^(\d+(?:\.\d+)?)(ms|s|m|min|h)$/i) ?? [];
  if (!digits) throw new Wrong("expected a number and a unit: 100ms, 2s, 5min or 1h");
  return Number(digits) * MILLISECONDS[unit.toLowerCase()];
}

function byteCount(value) {
  const [, digits, unit, binary] = value.trim().match(/^(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?$/i) ?? [];
  if (!digits) throw new Wrong("expected a number of bytes, or one with a unit: 500MB, 2GB or 1GiB");
  return Math.floor(Number(digits) * (binary ? 1024 : 1000) ** " kmgt".indexOf(unit.toLowerCase() || " "));
}

const AGES = { s: 1, min: 60, h: 3600, d: 86400, w: 7 * 86400 };

// Calls since or until a moment, where the trace says when it began.
function dated(field, value, trace, now) {
  const word = value.trim().toLowerCase();
  const [, digits, unit] = word.match(/^(\d+(?:\.\d+)?)\s*(s|min|h|d|w)$/) ?? [];
  let moment = NaN;
  if (word === "today" || word === "yesterday") moment = new Date(now * 1000).setHours(0, 0, 0, 0) / 1000 - (word === "today" ? 0 : 86400);
  else if (digits) moment = now - Number(digits) * AGES[unit];
  else if (/^\d{4}-\d{2}-\d{2}$/.test(word)) moment = Date.parse(`${word}T00:00`) / 1000;
  else if (/^\d{4}-\d{2}-\d{2}/.test(word)) moment = Date.parse(value.trim()) / 1000;
  if (Number.isNaN(moment)) {
    throw new Wrong("expected an age (30min, 2h, 3d), a day (2026-11-01), a time (2026-11-01T12:00:00Z), today or yesterday");
  }
  if (trace?.epoch == null) throw new Wrong("this recording does not say on which day it was made");
  return (call) => (field === "since" ? trace.epoch + call.announced >= moment : trace.epoch + call.announced < moment);
}
