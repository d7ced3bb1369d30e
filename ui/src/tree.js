// JSON as a tree. Long texts and long lists are folded.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { plain } from "./format.js";

const LONG = 600;
const MANY = 100;

export function Tree({ value, name, open = true, depth = 0 }) {
  const label = name == null ? "" : html`<span class="key">${plain(String(name).slice(0, 200))}:</span> `;
  if (value === null || typeof value !== "object") {
    return html`<div class="leaf">${label}<${Leaf} value=${value} /></div>`;
  }
  const entries = Object.entries(value);
  const isList = Array.isArray(value);
  if (!entries.length) return html`<div class="leaf">${label}<span class="dim">${isList ? "[]" : "{}"}</span></div>`;
  return html`<${Branch} label=${label} entries=${entries} isList=${isList} open=${open && depth < 12} depth=${depth} />`;
}

function Branch({ label, entries, isList, open, depth }) {
  const [shown, show] = useState(open);
  const [most, more] = useState(MANY);
  const size = isList ? `[${entries.length}]` : `{${entries.length}}`;
  return html`<details class="branch" open=${shown} onToggle=${(event) => show(event.currentTarget.open)}>
    <summary>${label}<span class="dim">${size}</span></summary>
    ${shown &&
    entries.slice(0, most).map(
      ([key, one]) => html`<${Tree} key=${key} name=${key} value=${one} open=${entries.length < 20 && depth < 4} depth=${depth + 1} />`,
    )}
    ${shown && entries.length > most &&
    html`<button class="more" onClick=${() => more(most * 10)}>⋯ ${entries.length - most} more</button>`}
  </details>`;
}

function Leaf({ value }) {
  const [whole, show] = useState(false);
  if (value === undefined) return html`<span class="dim">nothing</span>`;
  if (typeof value !== "string") return html`<span class="number">${String(value)}</span>`;
  const long = value.length > LONG && !whole;
  return html`<span class="text">${plain(long ? value.slice(0, LONG) : value) || '""'}</span>${long &&
  html` <button class="more" onClick=${() => show(true)}>⋯ ${(value.length - LONG).toLocaleString("en")} more characters</button>`}`;
}
