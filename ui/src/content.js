// What a call shows: texts, diffs, terminals, pictures. Everything is text: nothing from an agent becomes markup.
import { html } from "htm/preact";
import { Terminal } from "./ansi.js";
import { Boundary } from "./boundary.js";
import { Diff } from "./diff.js";
import { bytes, oneLine, plain, str } from "./format.js";
import { Link, Markdown } from "./markdown.js";
import { Tree } from "./tree.js";

const PICTURES = /^image\/(png|jpeg|gif|webp)$/;

// What was written to a terminal; at a moment that is replayed, from the notes of updates (`_meta.terminal_output`).
function terminalText(call, id) {
  const written = call.terminals?.[str(id)];
  if (typeof written === "string") return written;
  const texts = call.frames.map((frame) => frame.message?.params?.update?._meta?.terminal_output);
  return texts.filter((one) => one && (!id || one.terminal_id === id)).map((one) => str(one.data)).join("");
}

export function Content({ call, items = call.content, markdown = false }) {
  return html`<div class="content">
    ${(items ?? []).map((item, n) => html`<${Boundary} key=${n} of=${item}>
      <${Item} item=${item} call=${call} markdown=${markdown} />
    <//>`)}
  </div>`;
}

function Item({ item, call, markdown }) {
  if (item?.type === "diff") return html`<${Diff} item=${item} />`;
  if (item?.type === "terminal") {
    const text = terminalText(call, item.terminalId);
    if (text) return html`<${Terminal} text=${text} label="Terminal" />`;
    return html`<p class="dim">A terminal of the client (${oneLine(item.terminalId, 60)}): its output is not in the traffic.</p>`;
  }
  const block = item?.content ?? item;
  switch (block?.type) {
    case "text":
      if (markdown) return html`<${Markdown} text=${str(block.text)} />`;
      return html`<${Terminal} text=${unfenced(str(block.text))} />`;
    case "image":
      return html`<${Picture} block=${block} />`;
    case "resource_link":
      return html`<p class="resource"><${Link} url=${str(block.uri)} text=${oneLine(block.title || block.name || block.uri)} />
        <span class="dim"> ${oneLine(block.uri, 200)}</span></p>`;
    case "resource":
      if (typeof block.resource?.text === "string") {
        return html`<figure class="resource"><figcaption class="dim">${oneLine(block.resource.uri)}</figcaption>
          <${Terminal} text=${block.resource.text} /></figure>`;
      }
  }
  return html`<${Tree} value=${block} />`;
}

// Output in nothing but a fence is shown as the terminal that it was.
const unfenced = (text) => text.match(/^```[^\n`]*\n([\s\S]*?)\n?```\s*$/)?.[1] ?? text;

function Picture({ block }) {
  const [data, type] = [str(block.data), str(block.mimeType)];
  if (!PICTURES.test(type) || !/^[A-Za-z0-9+/=\s]+$/.test(data)) {
    return html`<p class="dim">A picture of the type ${oneLine(type, 60)}, which is not drawn.</p>`;
  }
  const size = bytes(Math.round((data.length * 3) / 4));
  return html`<img alt=${`A picture, ${size}`} src=${`data:${type};base64,${data}`} />`;
}

// The beginning of a long text.
export const shown = (text, most = 4000) => (text.length > most ? `${plain(text.slice(0, most))} …` : plain(text));
