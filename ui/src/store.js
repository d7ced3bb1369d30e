// The page's state, shared by the single page and the served one. Everything that is drawn follows from these signals.
import { batch, computed, signal } from "@preact/signals";
import * as api from "./api.js";
import { matcher } from "./filter.js";
import { at, storyOf, withKeys } from "./model.js";

export const TABS = ["card", "data", "frames", "findings", "timing"];

export const isServed = signal(false);
export const view = signal("calls"); // calls, sessions, session, compare; the single page has only "session"
export const sessionId = signal(null);
export const otherId = signal(null); // the session that is compared with it
export const query = signal("");
export const chosen = signal(null); // the key of a call, of a turn or of a message
export const tab = signal("card");
export const client = signal("callsheet"); // whose card is drawn
export const moment = signal(null); // what is replayed: seconds; null: the end
export const showMessages = signal(true);
export const problem = signal(""); // why there is nothing to show
export const notice = signal(""); // said once, to screen readers too

// What the server says of itself
export const state = signal({ version: null, total: 0, running: [], problem: null });
export const link = signal("connecting"); // connecting, live, lost, refused

// The session that is looked at
export const trace = signal(null);
export const before = signal(null); // the same as the agent sent it, where that is known

export const found = computed(() => {
  const now = moment.value;
  const { test, wrong } = matcher(query.value, trace.value);
  const seen = (trace.value?.calls ?? []).filter((call) => now == null || call.announced <= now).map((call) => at(call, now));
  return { calls: seen.filter(test), total: seen.length, wrong };
});

export const story = computed(() => {
  if (!trace.value) return [];
  const now = moment.value;
  const items = storyOf(trace.value, found.value.calls, showMessages.value && !query.value.trim());
  return now == null ? items : items.filter((item) => item.time <= now);
});

export const currentItem = computed(() => story.value.find((item) => item.key === chosen.value) ?? null);
export const originalOf = (call) => (call?.original == null ? null : (before.value?.calls[call.original] ?? null));

export function say(text) {
  notice.value = text;
  setTimeout(() => notice.value === text && (notice.value = ""), 4000);
}

export function show(data) {
  batch(() => {
    before.value = withKeys(data.before ?? null);
    trace.value = withKeys(data.trace);
  });
}

// Read a session of the history. While it is looked at, it is read again when something changed.
let reading = { id: null, version: null, next: 0 };

export async function openSession(id) {
  if (reading.id !== id) {
    reading = { id, version: null, next: 0 };
    batch(() => ((trace.value = null), (before.value = null), (moment.value = null), (problem.value = "")));
  }
  const mine = reading;
  const begun = performance.now();
  mine.version = state.value.version;
  mine.next = Infinity;
  try {
    const data = await api.get("session", { id });
    if (mine !== reading) return;
    show(data);
    problem.value = "";
  } catch (error) {
    if (mine === reading && !trace.value) problem.value = error.message;
  }
  const took = performance.now() - begun;
  mine.next = performance.now() + Math.max(800, took * 4);
  setTimeout(refreshSession, Math.max(800, took * 4) + 20);
}

export function refreshSession() {
  if (view.value !== "session" || !reading.id || state.value.version === reading.version) return;
  if (performance.now() >= reading.next) openSession(reading.id);
}

// Sessions, most recently used first
export const sessions = signal({ list: [], next: null, loaded: false });

export async function moreSessions(fresh = false) {
  const { list, next } = sessions.value;
  try {
    const got = await api.get("sessions", { limit: 50, before: fresh ? null : next });
    const ids = new Set(got.sessions.map((one) => one.id));
    const rest = list.filter((one) => !ids.has(one.id));
    // What was read before stays below the newest, unless it is another history.
    const isLonger = fresh && rest.length > 0 && rest.length < list.length;
    sessions.value = {
      list: fresh ? [...got.sessions, ...(isLonger ? rest : [])] : [...rest, ...got.sessions],
      next: isLonger ? next : got.next, loaded: true,
    };
  } catch (error) {
    say(error.message);
  }
}

// Saved filters
export const filters = signal([]);

export async function loadFilters() {
  filters.value = (await api.get("filters").catch(() => ({ filters: [] }))).filters;
}

export async function saveFilters(list) {
  try {
    await api.put("filters", { filters: list });
    filters.value = list;
  } catch (error) {
    say(error.message);
  }
}
