// The frame of the served page: where to go, what runs now, and whether the connection stands.
import { html } from "htm/preact";
import { useEffect } from "preact/hooks";
import { Boundary } from "./boundary.js";
import { Calls } from "./calls.js";
import { Compare } from "./compare.js";
import { clock, oneLine } from "./format.js";
import { Brand } from "./icons.js";
import { showHelp } from "./keys.js";
import { go } from "./route.js";
import { SessionView } from "./session.js";
import { Sessions } from "./sessions.js";
import * as s from "./store.js";

const VIEWS = { calls: Calls, sessions: Sessions, session: OneSession, compare: Compare };
const LINKS = { connecting: "connecting", live: "live", lost: "connection lost", refused: "refused" };

export function Shell() {
  const view = s.view.value;
  const here = view === "session" ? "sessions" : view;
  return html`<nav class="top" aria-label="Inspector">
      <span class="brand"><${Brand} /></span><b class="brand">Callsheet</b>
      ${[["calls", "Calls"], ["sessions", "Sessions"], ["compare", "Compare"]].map(([name, label]) => html`<button
        class="place" aria-current=${here === name ? "page" : null} onClick=${() => go(name)}>${label}</button>`)}
      <span class="grow"></span>
      <span class=${`link ${s.link.value}`} role="status">${LINKS[s.link.value]}</span>
      <button aria-label="Keys" title="Keys (?)" onClick=${showHelp}>?</button>
    </nav>
    <${Banner} />
    <${Running} />
    <${Boundary} of=${view}><${VIEWS[view]} /><//>`;
}

function Banner() {
  if (s.link.value === "refused") {
    return html`<p class="banner bad" role="alert">
      The server does not take this page's token. Open the address that <code>callsheet ui</code> printed.</p>`;
  }
  if (s.link.value === "lost") {
    return html`<p class="banner bad" role="alert">
      The connection to callsheet ui is lost. What you see may be old; it tries again by itself.</p>`;
  }
  return s.state.value.problem && html`<p class="banner bad" role="alert">${oneLine(s.state.value.problem, 500)}</p>`;
}

// Agents and taps that run now.
function Running() {
  const list = s.state.value.running ?? [];
  if (!list.length) return null;
  return html`<ul class="running" aria-label="Running now">
    ${list.map((one) => html`<li
      key=${one.pid} class=${one.history === s.state.value.history ? "" : "elsewhere"}
      title=${oneLine(`${[].concat(one.command).join(" ")} · pid ${one.pid} · ${one.cwd} · history ${one.history}`, 400)}
    ><span class="dot" aria-hidden="true"></span><b>${oneLine(one.name, 60)}</b>
      ${" "}<span class="dim">${one.kind} · since ${clock(since(one.since))}${elsewhere(one)}</span></li>`)}
  </ul>`;
}
const elsewhere = (one) => {
  if (one.history === "off") return " · stores nothing";
  return one.history === s.state.value.history ? "" : " · another history";
};
const since = (value) => (typeof value === "number" ? value : Date.parse(value) / 1000);

function OneSession() {
  const id = s.sessionId.value;
  useEffect(() => void (id && s.openSession(id)), [id]);
  useEffect(() => s.refreshSession(), [s.state.value.version]);
  return html`<${SessionView} />`;
}
