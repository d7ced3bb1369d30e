// A file's old and new text side by side, line by line. Long parts that did not change are folded.
import { html } from "htm/preact";
import { useMemo, useState } from "preact/hooks";
import { oneLine, plain } from "./format.js";
import { aligned } from "./lcs.js";

const AROUND = 3; // unchanged lines that are shown on either side of a change
const MOST_ROWS = 2000;

const lines = (text) => (text == null || text === "" ? [] : plain(text).replace(/\n$/, "").split("\n"));

// Rows of `{left, right, same}`, each side `[number, text]` or null.
function diffRows(oldText, newText) {
  const rows = [];
  for (const { pair, left, right, from } of aligned(lines(oldText), lines(newText))) {
    const [a, b] = from;
    if (pair) {
      rows.push({ left: [a + 1, pair[0]], right: [b + 1, pair[1]], same: true });
      continue;
    }
    for (let n = 0; n < Math.max(left.length, right.length); n++) {
      rows.push({
        left: n < left.length ? [a + n + 1, left[n]] : null,
        right: n < right.length ? [b + n + 1, right[n]] : null,
        same: false,
      });
    }
  }
  return rows;
}

// The rows in parts: what changed, the lines around it, and what may be folded.
function parts(rows) {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, n) => {
    if (!row.same) near.fill(1, Math.max(0, n - AROUND), n + AROUND + 1);
  });
  const found = [];
  rows.forEach((row, n) => {
    const last = found.at(-1);
    if (last && last.folded === !near[n] && last.same === row.same) last.rows.push(row);
    else found.push({ folded: !near[n], same: row.same, rows: [row] });
  });
  return found.map((part) => (part.rows.length < 4 ? { ...part, folded: false } : part));
}

export function Diff({ item }) {
  const rows = useMemo(() => diffRows(item.oldText, item.newText), [item.oldText, item.newText]);
  const added = rows.filter((row) => !row.same && row.right).length;
  const removed = rows.filter((row) => !row.same && row.left).length;
  const isNew = item.oldText == null;
  return html`<figure class="diff">
    <figcaption>
      <code>${oneLine(item.path || "a file without a path")}</code>
      ${added > 0 && html` <span class="added">+${added}</span>`} ${removed > 0 && html` <span class="removed">−${removed}</span>`}
      ${isNew && html` <span class="dim">new file</span>`}
    </figcaption>
    <table>
      <colgroup><col class="no" /><col /><col class="no" /><col /></colgroup>
      <thead class="hidden"><tr><th>line</th><th>before</th><th>line</th><th>after</th></tr></thead>
      ${parts(rows.slice(0, MOST_ROWS)).map((part, n) => html`<${Part} key=${n} part=${part} />`)}
    </table>
    ${rows.length > MOST_ROWS && html`<p class="dim">${rows.length - MOST_ROWS} more lines are not shown.</p>`}
  </figure>`;
}

function Part({ part }) {
  const [open, show] = useState(!part.folded);
  if (!open) {
    return html`<tbody class="folded">
      <tr><td colspan="4"><button onClick=${() => show(true)}>⋯ ${part.rows.length} lines that did not change</button></td></tr>
    </tbody>`;
  }
  return html`<tbody class=${part.same ? "same" : "changed"}>
    ${part.rows.map(({ left, right, same }) => {
      const [old, now] = same ? [left[1], right[1]] : marked(left?.[1], right?.[1]);
      return html`<tr>
        <td class=${`no ${side(left, same, "gone")}`}>${left?.[0]}</td>
        <td class=${side(left, same, "gone")}>${old}</td>
        <td class=${`no ${side(right, same, "new")}`}>${right?.[0]}</td>
        <td class=${side(right, same, "new")}>${now}</td>
      </tr>`;
    })}
  </tbody>`;
}
const side = (cell, same, name) => (cell == null ? "gap" : same ? "" : name);

// Two lines with what differs marked, if they have something in common.
function marked(old, now) {
  if (old == null || now == null) return [old, now];
  const most = Math.min(old.length, now.length);
  let [head, tail] = [0, 0];
  while (head < most && old[head] === now[head]) head++;
  while (tail < most - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  if (!`${old.slice(0, head)}${old.slice(old.length - tail)}`.trim()) return [old, now];
  const part = (text) => [text.slice(0, head), html`<mark>${text.slice(head, text.length - tail)}</mark>`, text.slice(text.length - tail)];
  return [part(old), part(now)];
}
