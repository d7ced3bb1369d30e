// The address's fragment leads back to what is looked at: view, session, call, filter and tab. Never the token.
import { batch } from "@preact/signals";
import * as s from "./store.js";

const LONGEST = 2000; // characters of a call's key: an address has no room for longer ones
const VIEWS = ["calls", "sessions", "session", "compare"];

function fragment() {
  const parts = new URLSearchParams();
  if (s.isServed.value) {
    if (s.view.value === "sessions") parts.set("view", "sessions");
    if (s.view.value === "compare") parts.set("view", "compare");
    if (["session", "compare"].includes(s.view.value) && s.sessionId.value) parts.set("session", s.sessionId.value);
    if (s.view.value === "compare" && s.otherId.value) parts.set("with", s.otherId.value);
  }
  if (s.chosen.value?.length < LONGEST) parts.set("call", s.chosen.value);
  if (s.query.value) parts.set("filter", s.query.value);
  if (s.tab.value !== "card") parts.set("tab", s.tab.value);
  return `#${parts}`;
}

// Write the address anew; a change of view is a step that the browser's back button undoes.
function remember(isStep = false) {
  if (isStep) history.pushState(null, "", fragment());
  else history.replaceState(null, "", fragment());
}

export function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  batch(() => {
    s.query.value = parts.get("filter") ?? "";
    s.chosen.value = parts.get("call");
    s.tab.value = s.TABS.includes(parts.get("tab")) ? parts.get("tab") : "card";
    if (!s.isServed.value) return void (s.view.value = "session");
    s.sessionId.value = parts.get("session");
    s.otherId.value = parts.get("with");
    const view = parts.get("view") ?? (parts.get("session") ? "session" : "calls");
    s.view.value = VIEWS.includes(view) ? view : "calls";
  });
}

export function go(view, { session = null, other = null, call = null, filter = "" } = {}) {
  batch(() => {
    s.view.value = view;
    s.sessionId.value = session;
    s.otherId.value = other;
    s.chosen.value = call;
    s.query.value = filter;
    s.moment.value = null;
  });
  remember(true);
}

export function choose(key) {
  s.chosen.value = key;
  remember();
}

export function setTab(name) {
  s.tab.value = name;
  remember();
}

export function setQuery(text) {
  s.query.value = text;
  remember();
}
