// What the page knows: the trace, the filter, the call that is looked at, and the moment that is replayed.
import { computed, signal } from "@preact/signals";
import { matcher } from "./filter.js";

export const trace = signal(null);
export const before = signal(null); // the recording as the agent sent it, where the page has both
export const query = signal("");
export const chosen = signal(null); // a call's key
export const tab = signal("card");
export const moment = signal(null); // seconds; null: the end
export const problem = signal("");

export const keyOf = (call) => `${call.session}/${call.id}/${call.announced}`;

export const duration = (call) =>
  call.ended == null ? null : Math.max(0, call.ended - (call.started ?? call.announced));

// How a call looked at a moment: what had not happened yet is not there.
export const at = (call, time) => {
  if (time == null || (call.ended != null && call.ended <= time)) return call;
  const started = call.started != null && call.started <= time;
  const asked = call.approvals.some((one) => one.asked <= time && !(one.answered <= time));
  return { ...call, ended: null, status: asked ? "waiting" : started ? "in_progress" : "pending", reason: null };
};

export const found = computed(() => {
  const { test, wrong } = matcher(query.value);
  const all = trace.value?.calls ?? [];
  const now = moment.value;
  const calls = all
    .filter((call) => (now == null || call.announced <= now) && test(call))
    .map((call) => at(call, now));
  return { calls, wrong };
});

export const current = computed(() => found.value.calls.find((call) => keyOf(call) === chosen.value) ?? null);

// The same call as the agent sent it.
export const original = computed(() => before.value?.calls[current.value?.original] ?? null);

export const bytes = (n) => (n < 1000 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toPrecision(2)} kB` : `${(n / 1e6).toPrecision(2)} MB`);
export const seconds = (s) =>
  s == null ? "" : s < 1 ? `${Math.round(s * 1000)} ms` : s < 60 ? `${s.toFixed(1)} s` : `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;

export const MARKS = { pending: "○", in_progress: "◐", waiting: "?", paused: "‖", completed: "✓", failed: "✗", cancelled: "⊘" };
export const ICONS = { read: "◫", edit: "✎", delete: "⌫", move: "→", search: "⌕", execute: "❯", think: "✻", fetch: "↓", switch_mode: "⇄" };

// A text in which nothing moves the cursor, hides, or turns around what stands beside it.
export const plain = (text) => String(text ?? "").replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, "�");
