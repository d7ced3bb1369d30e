// The parts of a call's detail: content, trees, diffs, frames. Everything is text: nothing from an agent becomes markup.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { bytes, plain, seconds } from "./model.js";

const SGR = { 30: "k", 31: "r", 32: "g", 33: "y", 34: "b", 35: "m", 36: "c", 37: "w", 1: "bold", 2: "dim", 3: "italic", 4: "under" };

// Terminal output with its colours; all other escape sequences and control characters are dropped.
export function Ansi({ text }) {
  const parts = [];
  let style = new Set();
  for (const piece of text.split(/(\x1b\[[0-9;]*m)/)) {
    const match = piece.match(/^\x1b\[([0-9;]*)m$/);
    if (match) {
      style = new Set(style);
      for (const code of match[1].split(";").map(Number)) {
        if (code === 0) style.clear();
        else if (code >= 90 && code < 98) style.add(SGR[code - 60]);
        else if (SGR[code]) style.add(SGR[code]);
      }
    } else if (piece) {
      const clean = piece.replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|\x1b\[[0-9;?]*[A-Za-z]|\x1b./g, "");
      parts.push(html`<span class=${[...style].map((one) => `ansi-${one}`).join(" ")}>${plain(clean)}</span>`);
    }
  }
  return html`<pre class="terminal">${parts}</pre>`;
}

// JSON as a tree. Long texts are folded.
export function Tree({ value, name, open = true }) {
  const label = name == null ? "" : html`<span class="key">${plain(name)}: </span>`;
  if (value === null || typeof value !== "object") return html`<div class="leaf">${label}<${Leaf} value=${value} /></div>`;
  const entries = Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (!entries.length) return html`<div class="leaf">${label}<span class="dim">${Array.isArray(value) ? "[]" : "{}"}</span></div>`;
  return html`<details open=${open}>
    <summary>${label}<span class="dim">${size}</span></summary>
    ${entries.map(([key, one]) => html`<${Tree} key=${key} name=${key} value=${one} open=${entries.length < 20} />`)}
  </details>`;
}

function Leaf({ value }) {
  const [whole, show] = useState(false);
  if (typeof value !== "string") return html`<span class="number">${String(value)}</span>`;
  const long = value.length > 400 && !whole;
  return html`<span class="text">${plain(long ? value.slice(0, 400) : value)}</span>${long &&
  html`<button class="more" onClick=${() => show(true)}>… ${value.length - 400} more characters</button>`}`;
}

// Lines that differ, side by side: the longest common beginning and end are folded.
export function Diff({ item }) {
  const old = lines(item.oldText);
  const fresh = lines(item.newText);
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < fresh.length - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail++;
  const from = Math.max(0, head - 3);
  const rows = [];
  const count = Math.max(old.length, fresh.length) - tail;
  for (let n = from; n < Math.min(count + 3, Math.max(old.length, fresh.length)); n++) {
    const left = n < old.length - tail || n < head ? old[n] : undefined;
    const right = n < fresh.length - tail || n < head ? fresh[n] : undefined;
    if (left === undefined && right === undefined) break;
    const same = left === right;
    rows.push(html`<tr>
      <td class="no">${left === undefined ? "" : n + 1}</td>
      <td class=${same || left === undefined ? "" : "gone"}>${plain(left)}</td>
      <td class="no">${right === undefined ? "" : n + 1}</td>
      <td class=${same || right === undefined ? "" : "new"}>${plain(right)}</td>
    </tr>`);
  }
  return html`<figure class="diff"><figcaption>${plain(item.path)}</figcaption><table>${rows}</table></figure>`;
}
const lines = (text) => (text == null || text === "" ? [] : String(text).replace(/\n$/, "").split("\n"));

export function Content({ items }) {
  return (items ?? []).map((item, n) => {
    if (item?.type === "diff") return html`<${Diff} key=${n} item=${item} />`;
    const block = item?.content ?? item;
    if (block?.type === "text") return html`<${Ansi} key=${n} text=${String(block.text ?? "")} />`;
    if (block?.type === "image" && /^image\/(png|jpeg|gif|webp)$/.test(block.mimeType ?? ""))
      return html`<img key=${n} alt="" src=${`data:${block.mimeType};base64,${block.data}`} />`;
    return html`<${Tree} key=${n} value=${block} />`;
  });
}

export function Frames({ call, title }) {
  return html`<section class="frames">
    <h3>${title} <span class="dim">${call.updates} updates, ${bytes(call.size)}</span></h3>
    ${call.frames.map(
      (frame) => html`<details key=${frame.line}>
        <summary><span class="dim">${seconds(frame.time)} · line ${frame.line}</span> ${frame.sender === "client" ? "←" : "→"} ${summary(frame.message)}</summary>
        <${Tree} value=${frame.message} />
      </details>`,
    )}
    ${call.leftOut > 0 && html`<p class="dim">${call.leftOut} frames in the middle are not shown.</p>`}
  </section>`;
}

function summary(message) {
  const update = message?.params?.update;
  if (update) return [update.sessionUpdate, update.status].filter(Boolean).map(plain).join(" · ");
  return message?.method ?? (message?.result ? "answer" : message?.error ? "error" : "message");
}
