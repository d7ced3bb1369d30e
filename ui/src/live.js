// The live list's data: rows by their place, read in windows as they come into sight. Old rows are forgotten.
import { effect, signal } from "@preact/signals";
import * as api from "./api.js";
import { ENDED, keyOf, settled } from "./model.js";
import { choose } from "./route.js";
import * as s from "./store.js";

const MOST_ROWS = 1500; // rows that are remembered
const WINDOW = 120; // rows that are asked for at once
const MARGIN = 20;

export const total = signal(null); // how many calls the filter selects; null: not known yet
export const wrong = signal([]);
export const problem = signal(""); // why the server does not list them
export const follow = signal(true); // whether the newest call stays in sight
export const left = signal(0); // how many there were when the reader left the bottom
export const place = signal(-1); // the row that is chosen
export const drawn = signal(0); // grows when rows have changed

let rows = new Map(); // place → {row, version}
let seen = [0, 60];
let round = 0; // grows with each change of the filter
let busy = false;
let again = false;

export const rowAt = (n) => rows.get(n)?.row ?? null;

// Choose the call in a row. One that is not read yet is chosen when it is.
let isAwaited = false;
export function pick(n) {
  place.value = n;
  const row = rowAt(n);
  isAwaited = !row;
  if (row) choose(row.key);
}

// Begin at the newest call that the filter selects, unless that is what is shown. What is being typed is not yet asked for.
let filter = null;
export function restart() {
  if (filter === s.query.value) return;
  filter = s.query.value;
  round++;
  rows = new Map();
  busy = again = false;
  total.value = null;
  problem.value = "";
  follow.value = true;
  place.value = expanded.value = -1;
  isAwaited = false;
  drawn.value++;
  load(true);
}

export function onSeen(first, last) {
  seen = [first, last];
  load();
}

function missing([first, last]) {
  for (let n = first; n < Math.min(last, total.value ?? 0); n++) {
    if (rows.get(n)?.version !== s.state.value.version) return true;
  }
  return false;
}

// Read what is in sight and not there, or older than what the server has. One request at a time; the last wish counts.
async function load(force = false) {
  if (busy) return void (again = true);
  if (!force && !missing(seen)) return judgeSoon();
  busy = true;
  const mine = round;
  const fromEnd = follow.value || total.value == null;
  const size = Math.min(200, Math.max(WINDOW, seen[1] - seen[0] + MARGIN));
  const offset = fromEnd ? -size : Math.max(0, Math.floor((seen[0] + seen[1] - size) / 2));
  const version = s.state.value.version;
  try {
    const got = await api.get("calls", { filter, offset, limit: size });
    if (mine !== round) return;
    take(got, version);
  } catch (error) {
    // When the server is well again, it is asked again. If it can't be reached at all, the banner says so.
    if (mine === round && error.status) problem.value = error.message;
    await new Promise((done) => setTimeout(done, 1000));
    if (mine !== round) return;
    busy = false;
    if (s.link.value === "live" && !s.state.value.problem) load(true);
    return;
  }
  busy = false;
  if (again || missing(seen)) {
    again = false;
    load();
  } else judgeSoon();
}

export const users = new Set(); // those of the calls that were read: rows name them if they are several

function take(got, version) {
  for (const row of got.calls) users.add(row.who.user);
  got.calls.forEach((row, n) => {
    rows.set(got.offset + n, { row: settled(row, keyOf(row.session, row.id)), version });
  });
  for (const n of rows.keys()) if (n >= got.total) rows.delete(n);
  if (rows.size > MOST_ROWS) {
    const centre = (seen[0] + seen[1]) / 2;
    const far = [...rows.keys()].sort((a, b) => Math.abs(b - centre) - Math.abs(a - centre));
    for (const n of far.slice(0, rows.size - MOST_ROWS)) rows.delete(n);
  }
  if (follow.value) left.value = got.total;
  total.value = got.total;
  problem.value = "";
  wrong.value = got.wrong;
  const here = rowAt(place.value);
  if (isAwaited && here) choose(here.key);
  else if (!isAwaited && here?.key !== s.chosen.value) {
    // Calls that are older may have been stored since.
    const found = got.calls.findIndex((row) => row.key === s.chosen.value);
    if (found >= 0) place.value = got.offset + found;
  }
  if (here) isAwaited = false;
  drawn.value++;
}

// How many findings calls have. To judge a call takes longer than to list it, so it is done when the list is still.
export const judged = new Map(); // key → count; null: it is too large to be judged here
const STILL = 400; // milliseconds
const MOST_JUDGED = 5000;
let judging = null;

const isKnown = (row) => !row || isRunning(row) || judged.has(row.key);
export const isRunning = (row) => row.durationMs == null && !ENDED.includes(row.status);

function judgeSoon() {
  clearTimeout(judging);
  judging = setTimeout(judge, STILL);
}

async function judge() {
  const mine = round;
  let [first, last] = [seen[0], Math.min(seen[1], total.value ?? 0)];
  while (first < last && isKnown(rowAt(first))) first++;
  while (first < last && isKnown(rowAt(last - 1))) last--;
  if (first === last) return;
  const asked = Array.from({ length: last - first }, (_, n) => rowAt(first + n)).filter((row) => !isKnown(row));
  const got = await api.get("findings", { filter, offset: first, limit: last - first }).catch(() => null);
  if (!got || mine !== round) return; // they are in the detail, too
  if (judged.size > MOST_JUDGED) judged.clear();
  for (const row of asked) judged.set(row.key, null);
  for (const { session, id, count } of got.findings) judged.set(keyOf(session, id), count);
  drawn.value++;
}

// A new version at the server, or one that is well again: what is in sight is read again.
let version = null;
export function watch() {
  effect(() => {
    const { version: latest, problem } = s.state.value;
    const now = problem ? null : latest;
    if (now === version) return;
    version = now;
    if (s.view.peek() === "calls" && now != null) load(true);
  });
}

export function setFollow(isBottom) {
  if (isBottom === follow.value) return;
  follow.value = isBottom;
  left.value = total.value ?? 0;
}

// One call in detail, read again while it runs; and the one whose frames are open in the list.
export const detail = signal(null); // {key, version, call, hasTimes, who, cwd} or {key, version, error}
export const frames = signal(null); // the same
export const expanded = signal(-1); // the place of the row that is open
const asked = new Map(); // signal → the key that it waits for

async function read(target, key, session, id) {
  if (asked.get(target) === key) return;
  asked.set(target, key);
  const version = s.state.value.version;
  let got;
  try {
    got = await api.get("call", { session, id });
    settled(got.call, key);
  } catch (error) {
    got = { error: error.message };
  }
  if (asked.get(target) !== key) return;
  asked.delete(target);
  target.value = { key, version, ...got };
}
export const readCall = (key, session, id) => read(detail, key, session, id);
export const readFrames = (row) => read(frames, row.key, row.session, row.id);
