// The keyboard: what each key does, and the list of keys.
import { signal } from "@preact/signals";
import { html } from "htm/preact";
import { useRef } from "preact/hooks";
import { setTab } from "./route.js";
import * as s from "./store.js";
import { zoomBy } from "./timeline.js";

// Set by the view that is shown: `{count, place, go(n), close(), expand()}`.
export const navigation = { value: null };

const KEYS = {
  "j k ↓ ↑": "next and previous call",
  "g G": "first and last call",
  Enter: "to the detail",
  o: "its frames",
  "1–5": "tabs of the detail",
  "/": "filter",
  Escape: "close the detail, leave the field",
  "+ − 0": "zoom the timeline, all of it",
  "?": "these keys",
};
const help = signal(null);

export function Help() {
  const dialog = useRef(null);
  help.value = () => (dialog.current.open ? dialog.current.close() : dialog.current.showModal());
  return html`<dialog ref=${dialog} aria-label="Keys">
    <h2>Keys</h2>
    <dl>
      ${Object.entries(KEYS).map(([keys, what]) => html`
        <dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${what}</dd>`)}
    </dl>
    <button onClick=${() => dialog.current.close()}>Close</button>
  </dialog>`;
}
export const showHelp = () => help.value?.();

function escape(event) {
  if (event.target.matches("input")) event.target.blur();
  else if (s.chosen.value) {
    navigation.value?.close();
    document.querySelector("[role=listbox]")?.focus();
  }
}

function frames() {
  const nav = navigation.value;
  if (nav?.expand) nav.expand();
  else setTab(s.tab.value === "frames" ? "card" : "frames");
}

export function pressed(event) {
  const inField = event.target.matches("input:not([type=range]), textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (inField && event.key !== "Escape") return;
  const nav = navigation.value ?? { count: 0, place: -1, go() {} };
  const inList = event.target.matches("[role=listbox], body");
  const act = {
    j: () => nav.go(nav.place + 1),
    k: () => nav.go(nav.place < 0 ? 0 : nav.place - 1),
    g: () => nav.go(0),
    G: () => nav.go(nav.count - 1),
    o: frames,
    "/": () => document.getElementById("search")?.focus(),
    "?": showHelp,
    "+": () => zoomBy.current?.(1 / 1.6),
    "=": () => zoomBy.current?.(1 / 1.6),
    "-": () => zoomBy.current?.(1.6),
    0: () => zoomBy.current?.(0),
    Escape: () => escape(event),
    ...(inList && {
      ArrowDown: () => nav.go(nav.place + 1),
      ArrowUp: () => nav.go(nav.place < 0 ? 0 : nav.place - 1),
      PageDown: () => nav.go(nav.place + 10),
      PageUp: () => nav.go(Math.max(0, nav.place - 10)),
      Home: () => nav.go(0),
      End: () => nav.go(nav.count - 1),
      Enter: () => (nav.place < 0 ? nav.go(0) : document.getElementById("tabpanel")?.focus()),
    }),
  }[event.key] ?? (s.TABS[event.key - 1] ? () => setTab(s.TABS[event.key - 1]) : null);
  if (!act) return;
  event.preventDefault();
  act();
}
