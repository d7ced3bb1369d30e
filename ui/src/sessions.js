// The sessions of the history, and a field that chooses one.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { clock, oneLine, plural } from "./format.js";
import { navigation } from "./keys.js";
import { go } from "./route.js";
import * as s from "./store.js";
import { agentName, whoText } from "./who.js";

const nameOf = (one) => oneLine(one.title || one.id, 160);

const joined = (...facts) => facts.filter(Boolean).map((text) => oneLine(text, 120)).join(" · ");

export function Sessions() {
  useEffect(() => void s.moreSessions(true), [s.state.value.version]);
  const [marked, mark] = useState([]);
  navigation.value = null;
  const { list, next, loaded } = s.sessions.value;
  const toggle = (id) => mark(marked.includes(id) ? marked.filter((one) => one !== id) : [...marked, id].slice(-2));
  return html`<div class="view sessions">
    <div class="toolbar">
      <h1>Sessions</h1>
      <span class="grow"></span>
      <span class="dim" aria-live="polite">${marked.length === 2 ? "" : "Mark two to compare them."}</span>
      <button disabled=${marked.length !== 2} onClick=${() => go("compare", { session: marked[0], other: marked[1] })}>Compare</button>
    </div>
    <ul class="session-list">
      ${list.map((one) => html`<li key=${one.id}>
        <input type="checkbox" aria-label=${`Mark ${nameOf(one)}`} checked=${marked.includes(one.id)} onChange=${() => toggle(one.id)} />
        <button class="pick" onClick=${() => go("session", { session: one.id })}>
          <span class="title">${nameOf(one)}</span>
          <span class="amounts">${joined(plural(one.calls, "call"), one.usage)}</span>
          <span class="facts">${joined(whoText(one.who) || "unknown", one.cwd)}</span>
          <span class="facts when">${clock(one.updatedAt)}</span>
        </button>
      </li>`)}
    </ul>
    ${loaded && !list.length && html`<p class="dim page-problem">No session is stored.</p>`}
    ${next && html`<p class="page-problem"><button onClick=${() => s.moreSessions()}>More</button></p>`}
  </div>`;
}

export function SessionField({ label, value, onPick }) {
  const { list } = s.sessions.value;
  const known = list.some((one) => one.id === value);
  return html`<label class="session-field"><span class="dim">${label}</span>
    <select value=${value ?? ""} onChange=${(event) => onPick(event.target.value || null)}>
      <option value="">Choose a session</option>
      ${value && !known && html`<option value=${value}>${oneLine(value, 60)}</option>`}
      ${list.map((one) => html`<option value=${one.id}>
        ${[oneLine(agentName(one.who), 40), oneLine(nameOf(one), 60), plural(one.calls, "call"), clock(one.updatedAt)].filter(Boolean).join(" · ")}</option>`)}
    </select>
  </label>`;
}
