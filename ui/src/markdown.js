// A little Markdown, drawn as elements and never as HTML: what clients do with texts of agents. Nothing is fetched.
import { html } from "htm/preact";
import { plain } from "./format.js";

// Code, bold (two ways), italics (two ways), a link or a picture, a character that is escaped.
const INLINE = new RegExp(
  [
    /(?<!`)(`+)(?!`)([^`]+)\1(?!`)/, /\*\*([^*\n]+)\*\*/, /__([^_\n]+)__/, /\*([^*\s][^*\n]*)\*/, /(?<!\w)_([^_\s][^_\n]*)_(?!\w)/,
    /!?\[([^[\]\n]{0,500})\]\(([^()\s]{1,2000})\)/, /\\([\\`*_[\]()#])/,
  ].map((part) => part.source).join("|"),
  "g",
);

// A link that can be followed by hand. Other schemes than http and https are only text.
export function Link({ url, text }) {
  const safe = /^https?:\/\/[^\s]+$/i.test(url) && URL.canParse(url);
  if (!safe) return html`<span class="no-link" title=${plain(url).slice(0, 300)}>${plain(text)}</span>`;
  return html`<a href=${url} target="_blank" rel="noopener noreferrer" title=${plain(url).slice(0, 300)}>${plain(text)}</a>`;
}

export function Inline({ text, links = true }) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, , code, strong, strong2, em, em2, label, url, escaped] = match;
    parts.push(plain(text.slice(end, match.index)));
    end = match.index + whole.length;
    if (code != null) parts.push(html`<code>${plain(code)}</code>`);
    else if (strong ?? strong2) parts.push(html`<strong>${plain(strong ?? strong2)}</strong>`);
    else if (em ?? em2) parts.push(html`<em>${plain(em ?? em2)}</em>`);
    else if (escaped) parts.push(escaped);
    else if (whole.startsWith("!")) parts.push(html`<span class="dim">[image: ${plain(label || url)}]</span>`);
    else parts.push(links ? html`<${Link} url=${url} text=${label || url} />` : html`<u>${plain(label || url)}</u>`);
  }
  parts.push(plain(text.slice(end)));
  return html`<${"span"}>${parts}</span>`;
}

// A title: what stands between backticks is code, and everything else is as it is.
export const CodeSpans = ({ text }) => text.split(/`([^`]+)`/).map((part, n) => (n % 2 ? html`<code>${part}</code>` : part));

// Blocks: code fences, headings, lists, quotes and paragraphs. A fence that is not closed goes to the end.
export function Markdown({ text }) {
  const blocks = [];
  let [lines, isCode] = [[], false];
  const end = () => {
    const piece = lines.join("\n");
    if (isCode) blocks.push(html`<pre class="code">${plain(piece)}</pre>`);
    else for (const part of piece.split(/\n{2,}/)) if (part.trim()) blocks.push(paragraph(part));
    [lines, isCode] = [[], !isCode];
  };
  for (const line of text.slice(0, 100_000).split("\n")) {
    if (isCode ? /^```+\s*$/.test(line) : line.startsWith("```")) end();
    else lines.push(line);
  }
  end();
  return html`<div class="markdown">${blocks}</div>`;
}

function paragraph(text) {
  const lines = text.trim().split("\n");
  const heading = lines.length === 1 && lines[0].match(/^(#{1,6})\s+(.*)/);
  if (heading) return html`<p class="heading"><${Inline} text=${heading[2]} /></p>`;
  if (lines.every((line) => /^\s*(?:[-*+]|\d+[.)])\s/.test(line))) {
    return html`<ul>${lines.map((line) => html`<li><${Inline} text=${line.replace(/^\s*(?:[-*+]|\d+[.)])\s/, "")} /></li>`)}</ul>`;
  }
  return html`<p>${lines.map((line, n) => html`${n > 0 && html`<br />`}<${Inline} text=${line} />`)}</p>`;
}
