// Terminal output: colours are kept, a carriage return overwrites its line, and every other escape is dropped.
import { html } from "htm/preact";
import { useMemo, useState } from "preact/hooks";
import { ESCAPES, plain } from "./format.js";

const MOST = 60_000; // characters that are drawn at once
const WIDEST = 2000; // columns; a line that is longer was wrapped, and only its end can be overwritten
const FLAGS = { __proto__: null, 1: "bold", 2: "faint", 3: "italic", 4: "under", 7: "inverse", 9: "struck" };
const OFF = { __proto__: null, 22: ["bold", "faint"], 23: ["italic"], 24: ["under"], 27: ["inverse"], 29: ["struck"] };

// The nearest of the sixteen colours, so that each can be read on a light and on a dark page.
function nearest(r, g, b) {
  const [high, low] = [Math.max(r, g, b), Math.min(r, g, b)];
  if (high - low < 40) return high < 64 ? 0 : high < 160 ? 8 : high < 230 ? 7 : 15;
  const middle = (high + low) / 2;
  return (r > middle ? 1 : 0) + (g > middle ? 2 : 0) + (b > middle ? 4 : 0) + (high > 200 ? 8 : 0);
}

function indexed(n) {
  if (!(n >= 0 && n < 256)) return null;
  if (n < 16) return n;
  if (n >= 232) return nearest(...Array(3).fill((n - 232) * 10 + 8));
  const level = (value) => (value ? value * 40 + 55 : 0);
  return nearest(level(Math.floor((n - 16) / 36)), level(Math.floor((n - 16) / 6) % 6), level((n - 16) % 6));
}

// The style after a sequence of SGR codes. A style is `{fg, bg, flags}`; it is never changed in place.
function styled(style, text) {
  let { fg, bg, flags } = style;
  const codes = text.split(/[;:]/).map(Number);
  for (let n = 0; n < codes.length; n++) {
    const code = codes[n];
    if (code === 0) [fg, bg, flags] = [null, null, []];
    else if (FLAGS[code]) flags = [...new Set([...flags, FLAGS[code]])];
    else if (OFF[code]) flags = flags.filter((flag) => !OFF[code].includes(flag));
    else if (code >= 30 && code < 38) fg = code - 30;
    else if (code >= 90 && code < 98) fg = code - 82;
    else if (code >= 40 && code < 48) bg = code - 40;
    else if (code >= 100 && code < 108) bg = code - 92;
    else if (code === 39) fg = null;
    else if (code === 49) bg = null;
    else if (code === 38 || code === 48) {
      const colour = codes[n + 1] === 5 ? indexed(codes[n + 2]) : codes[n + 1] === 2 ? nearest(...codes.slice(n + 2, n + 5)) : null;
      n += codes[n + 1] === 5 ? 2 : 4;
      if (code === 38) fg = colour;
      else bg = colour;
    }
  }
  return { fg, bg, flags };
}
const PLAIN = { fg: null, bg: null, flags: [] };
const classes = ({ fg, bg, flags }) =>
  [fg != null && `fg${fg}`, bg != null && `bg${bg}`, ...flags].filter(Boolean).join(" ");

// Texts with their styles: `[[text, classes], …]`.
function terminalParts(text) {
  const parts = [];
  let line = []; // of the current line: pieces `[text, classes]` before `column`, or cells once it was overwritten
  let column = null;
  let style = PLAIN;
  const take = (cells) => {
    for (const cell of cells) parts.push(cell ?? [" ", ""]);
  };
  const put = (piece) => {
    if (!piece) return;
    const name = classes(style);
    if (column == null) return void line.push([piece, name]);
    for (const char of piece) {
      line[column++] = [char, name];
      if (column === WIDEST) take(line), ([line, column] = [[], 0]);
    }
  };
  const end = (mark) => {
    take(line);
    if (mark) parts.push([mark, ""]);
    [line, column] = [[], null];
  };
  for (const piece of text.split(/(\x1b\[[0-9;:]*m|\x1b\[[0-2]?K|\r\n|\n|\r)/)) {
    if (piece === "\n" || piece === "\r\n") end("\n");
    else if (piece === "\r") {
      if (column == null) {
        const cells = line.flatMap(([part, name]) => [...part].map((char) => [char, name]));
        const wrapped = cells.length - (cells.length % WIDEST);
        take(cells.slice(0, wrapped));
        line = cells.slice(wrapped);
      }
      column = 0;
    } else if (/^\x1b\[[0-9;:]*m$/.test(piece)) style = styled(style, piece.slice(2, -1));
    else if (/^\x1b\[[0-2]?K$/.test(piece)) {
      if (column != null) line.length = piece[2] === "K" || piece[2] === "0" ? Math.min(line.length, column) : 0;
      else if (piece[2] === "2") line = [];
    } else put(plain(piece.replace(ESCAPES, "")));
  }
  end("");
  return joined(parts);
}

function joined(parts) {
  const found = [];
  for (const [text, name] of parts) {
    if (found.length && (found.at(-1)[1] === name || text === "\n")) found.at(-1)[0] += text;
    else found.push([text, name]);
  }
  return found;
}

export function Terminal({ text, label = "Output" }) {
  const [whole, show] = useState(false);
  const shown = whole ? text : text.slice(-MOST);
  const parts = useMemo(() => terminalParts(shown), [shown]);
  return html`<div class="terminal">
    ${shown.length < text.length &&
    html`<button class="more" onClick=${() => show(true)}>
      ⋯ ${(text.length - shown.length).toLocaleString("en")} characters before</button>`}
    <pre tabindex="0" aria-label=${label}>${parts.map(([part, name]) => (name ? html`<span class=${name}>${part}</span>` : part))}</pre>
  </div>`;
}
