// What is known of calls: their keys, how they looked at a moment, who approved them. Pure functions over a trace.
import { escaped, list, money, num, str } from "./format.js";
import { aligned } from "./lcs.js";

export const keyOf = (session, id, nth = 0) =>
  `${encodeURIComponent(session ?? "")}/${encodeURIComponent(id ?? "")}${nth ? `/${nth}` : ""}`;

export function partsOf(key) {
  const [session, id] = (key ?? "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { session, id };
}

// Give a call its key, and the parts that an agent wrote the types that the page relies on.
export function settled(call, key) {
  for (const name of ["title", "name", "kind", "status", "reason", "parent"]) call[name] = call[name] == null ? null : str(call[name]);
  for (const name of ["content", "locations", "approvals", "frames"]) call[name] = list(call[name]);
  call.repaired = list(call.repaired).map((rule) => str(rule));
  call.secrets ??= 0;
  return Object.assign(call, { key });
}

// Give each call of a trace its key. An id that is used again is numbered.
export function withKeys(trace) {
  const counts = new Map();
  for (const call of trace?.calls ?? []) {
    const key = keyOf(call.session, call.id);
    const nth = counts.get(key) ?? 0;
    counts.set(key, nth + 1);
    settled(call, keyOf(call.session, call.id, nth));
  }
  return trace;
}

// Milliseconds that a call ran, or null.
export const duration = (call) =>
  call.ended == null ? null : Math.max(0, call.ended - (call.started ?? call.announced)) * 1000;

const FIELDS = {
  title: "title", kind: "kind", status: "status", rawInput: "input", rawOutput: "output", content: "content", locations: "locations",
};

export const ENDED = ["completed", "failed", "cancelled"];

// How a call looked at a moment, made from the frames until then. What had not happened yet is not there.
export function at(call, time) {
  if (time == null) return call;
  const frames = call.frames.filter((frame) => frame.time <= time);
  if (frames.length === call.frames.length && (call.ended == null || call.ended <= time)) return call;
  const approvals = call.approvals
    .filter((one) => one.asked <= time)
    .map((one) => (one.answered <= time ? one : { ...one, answered: null, outcome: null, option: null }));
  const seen = { title: "", kind: "", status: "pending", input: null, output: null, content: [], locations: [] };
  for (const { message } of frames) {
    const update = message?.params?.update ?? message?.params?.toolCall ?? {};
    for (const [name, field] of Object.entries(FIELDS)) if (update[name] != null) seen[field] = update[name];
  }
  // The frames need not say what a call is called, where it was stored and not recorded.
  if (!frames.length) Object.assign(seen, { title: call.title, kind: call.kind });
  const waits = approvals.some((one) => one.answered == null);
  const happened = (moment) => (moment != null && moment <= time ? moment : null);
  // The frames of a stored call are all from its beginning, though they say how it ended.
  if (ENDED.includes(seen.status) && call.ended > time) {
    Object.assign(seen, { status: happened(call.started) == null ? "pending" : "in_progress", output: null, content: [] });
  }
  return {
    ...settled({ ...call, ...seen, frames, approvals, terminals: null }, call.key),
    ...(waits && { status: "waiting" }),
    started: happened(call.started), firstOutput: happened(call.firstOutput), ended: happened(call.ended),
    reason: null, findings: [],
  };
}

// Who or what answered a request for permission, and after how long. From a note, or from the traffic; or null.
export function permissionOf(call) {
  const last = call.permission ?? call.approvals.at(-1);
  if (!last) return null;
  const words = Object.fromEntries(["outcome", "by", "option", "scope"].map((name) => [name, str(last[name])]));
  if (call.permission) return { ...words, waitedMs: num(last.waitedMs) };
  return { ...words, waitedMs: last.waited == null ? null : last.waited * 1000 };
}

// A call's title for a row: paths below the session's directory are written from there, as people name them.
const LONGEST_DIRECTORY = 1000;
const LONGEST_TITLE = 2000;
export function shortTitle(call, trace) {
  const title = call.title || call.name || call.id;
  const cwd = str(trace.sessions?.[call.session]).replace(/\/+$/, "");
  if (!cwd.startsWith("/") || cwd.length > LONGEST_DIRECTORY) return title;
  const escaped = cwd.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  const path = new RegExp(`(?<![\\w./~-])${escaped}(?:/+(?=[^\\s/'"\`])|/*(?=[\\s'"\`]|$))`, "g");
  return title.slice(0, LONGEST_TITLE).replace(path, (found, at, all) => (at + found.length < all.length && found.endsWith("/") ? "" : "."));
}

// The command for a POSIX shell that makes the same call, or null if its name can't be a tool's. People paste it
// into a terminal: there is nothing in it that one would act on.
export function commandOf(call) {
  if (!/^\w[\w.:/-]*$/.test(str(call.name))) return null;
  return `callsheet call ${call.name} --json '${escaped(JSON.stringify(call.input ?? {})).replaceAll("'", "'\\''")}'`;
}

// What the tap repaired of a call.
export const repairedOf = (call) => call.repaired ?? [];

// Calls, prompts and messages in the order in which they happened.
export function storyOf(trace, calls, withMessages) {
  const items = calls.map((call) => ({ type: "call", key: call.key, time: call.announced, call, rank: 2 }));
  if (withMessages) {
    trace.turns.forEach((turn, n) => items.push({ type: "turn", key: `turn/${n}`, time: turn.begun, turn, n, rank: 0 }));
    trace.messages.forEach((message, n) =>
      items.push({ type: "message", key: `message/${n}`, time: message.time, message, rank: 1 }),
    );
  }
  return items.sort((a, b) => a.time - b.time || a.rank - b.rank);
}

// How a turn had ended at a moment, or null.
export const stopOf = (turn, time) => (time == null || (turn.ended != null && turn.ended <= time) ? turn.stop : null);

// The plan of a turn at a moment.
export function planOf(turn, time) {
  const entries = turn.plans.filter((plan) => time == null || plan.time <= time).at(-1)?.entries;
  return list(entries).map((entry) => ({ content: str(entry?.content ?? entry), status: str(entry?.status), priority: str(entry?.priority) }));
}

export const usageText = (usage) => {
  if (!usage) return "";
  const number = (value) => value.toLocaleString("en");
  const [tokens, size, cost] = [num(usage.used) ?? num(usage.totalTokens), num(usage.size), num(usage.cost?.amount)];
  return [
    tokens != null && `${number(tokens)}${size ? ` of ${number(size)}` : ""} tokens`,
    cost != null && `${num(usage.cost.estimated) ? "≈ " : ""}${money(cost, str(usage.cost.currency))}`,
  ].filter(Boolean).join(", ");
};

const SEVERITIES = ["error", "warning", "advice"];

// The rules that findings break, each with its count: the worst first, then the most frequent.
export function brokenRules(findings) {
  const found = new Map();
  for (const { rule, severity } of findings) {
    if (!found.has(rule)) found.set(rule, { rule, severity, rank: SEVERITIES.indexOf(severity), count: 0 });
    found.get(rule).count += 1;
  }
  return [...found.values()].sort((a, b) => a.rank - b.rank || b.count - a.count);
}

// Two traces side by side: rows `{left, right, differs}`. Calls with the same tool and title are a pair; between these,
// calls of the same tool; between these, calls of the same kind, as agents call the same tool by other names.
export function comparedRows(left, right) {
  const [names, titles] = [new Map(), new Map()];
  for (const trace of [left, right]) {
    for (const call of trace.calls) names.set(call, call.name || call.kind || call.title), titles.set(call, shortTitle(call, trace));
  }
  const tests = [
    (a, b) => names.get(a) === names.get(b) && titles.get(a) === titles.get(b),
    (a, b) => names.get(a) === names.get(b),
    (a, b) => !!a.kind && a.kind !== "other" && a.kind === b.kind,
  ];
  const rows = (ones, others, [test, ...rest]) =>
    aligned(ones, others, test).flatMap(({ pair, left, right }) => {
      if (pair) return [compared(...pair, titles)];
      if (rest.length && left.length && right.length) return rows(left, right, rest);
      return [...left.map((call) => compared(call, null, titles)), ...right.map((call) => compared(null, call, titles))];
    });
  return rows(left.calls, right.calls, tests);
}

function compared(left, right, titles) {
  if (!left || !right) return { left, right, differs: [left ? "only left" : "only right"] };
  const differs = [];
  if (titles.get(left) !== titles.get(right)) differs.push("title");
  if (left.status !== right.status) differs.push("status");
  const [a, b] = [duration(left), duration(right)];
  if (a != null && b != null && Math.max(a, b) > 100 && Math.max(a, b) > 2 * Math.min(a, b)) differs.push("duration");
  return { left, right, differs };
}
