// A call's card as other clients draw it, by what is known of them. The differences are said below each card.
import { html } from "htm/preact";
import { Terminal } from "./ansi.js";
import { Content, shown } from "./content.js";
import { num, oneLine, plain, statusClass, statusWord, str } from "./format.js";
import { KindIcon, Mark } from "./icons.js";
import { CodeSpans, Inline } from "./markdown.js";

export const CLIENTS = { callsheet: "All of it", zed: "Zed", jetbrains: "JetBrains", toad: "Toad", acpx: "acpx", plain: "Plain" };

const V1 = ["pending", "in_progress", "completed", "failed"];
const isEmpty = (value) => value == null || value === "" || (typeof value === "object" && !Object.keys(value).length);
const textsOf = (call) => (call.content ?? []).filter((item) => (item?.content ?? item)?.type === "text");

export function ClientCard({ client, call }) {
  const draw = { callsheet: Whole, zed: Zed, jetbrains: JetBrains, toad: Toad, acpx: Acpx, plain: Plain }[client] ?? Whole;
  const { card, notes } = draw(call);
  return html`<div class=${`client ${client}`}>
    ${card}
    ${notes.length > 0 && html`<ul class="notes">${notes.map((note) => html`<li>${note}</li>`)}</ul>`}
  </div>`;
}

const mark = (call) => html`<${Mark} status=${call.status} />`;
const icon = (call) => html`<${KindIcon} kind=${call.kind} />`;
const Card = ({ call, head, children }) => html`<div class=${`card ${statusClass(call.status)}`}><h4>${head}</h4>${children}</div>`;

function Whole(call) {
  const notes = [];
  if (!call.kind) notes.push("It has no kind.");
  if (isEmpty(call.input)) notes.push("It has no input: nobody can see what was run.");
  const title = call.title ? html`<${CodeSpans} text=${shown(call.title, 500)} />` : html`<i class="dim">no title</i>`;
  const card = html`<${Card} call=${call} head=${html`${mark(call)} ${icon(call)} ${title}`}>
    <${Locations} call=${call} />
    <${Content} call=${call} />
    ${!call.content?.length && !isEmpty(call.output) && html`<${Terminal} text=${str(call.output, 2)} />`}
    ${!call.content?.length && isEmpty(call.output) && html`<p class="dim">It shows no content.</p>`}
  <//>`;
  return { card, notes };
}

const Locations = ({ call }) =>
  call.locations?.length > 0 &&
  html`<p class="locations">
    ${call.locations.slice(0, 20).map((one) => html`<code>${oneLine(one?.path)}${num(one?.line) ? `:${one.line}` : ""}</code> `)}
  </p>`;

function Zed(call) {
  const notes = [];
  const first = call.title.split("\n")[0].slice(0, 500);
  let title = html`<${Inline} text=${first} links=${false} />`;
  if (call.kind === "execute") title = html`<code>${shown(call.title, 500)}</code>`;
  else if (call.kind === "edit") title = shown(call.title, 500);
  else if (/[*_`]/.test(first)) notes.push("The title is read as Markdown: its *, _ and ` are not shown as they are.");
  if (call.title.includes("\n") && call.kind !== "execute") notes.push("Only the first line of the title is shown.");
  const status = V1.includes(call.status) ? call.status : call.status === "waiting" ? "pending" : null;
  if (!status) notes.push(`It does not know the status ${oneLine(call.status, 40) || "(none)"}: the card stays pending.`);
  if (call.status === "pending" || call.status === "in_progress") notes.push("The card turns its spinner until the call ends.");
  if (call.content?.length && !isEmpty(call.output)) notes.push("The raw output is not shown, because there is content.");
  const outside = (call.locations ?? []).filter((one) => !str(one?.path).startsWith("/"));
  if (outside.length) notes.push("A location that is not absolute can't be followed.");
  else if (call.locations?.length > 1) notes.push("Only the last location moves its “follow”.");
  const drawn = { ...call, status: status ?? "pending" };
  const card = html`<${Card} call=${drawn} head=${html`${icon(call)} ${title} ${call.status === "failed" && mark(call)}`}>
    <${Content} call=${call} markdown=${true} />
    ${!call.content?.length && !isEmpty(call.output) && html`<pre class="code">${shown(str(call.output, 2))}</pre>`}
  <//>`;
  return { card, notes };
}

function JetBrains(call) {
  const notes = ["An update before the answer to session/new leaves a spinner that never stops."];
  if (!V1.includes(call.status)) notes.push(`It does not know the status ${oneLine(call.status, 40) || "(none)"}.`);
  const card = html`<${Card} call=${call} head=${html`${mark(call)} ${shown(call.title, 300)}`}>
    <${Locations} call=${call} />
    <${Content} call=${call} markdown=${true} />
  <//>`;
  return { card, notes };
}

function Toad(call) {
  const notes = [];
  const without = (call.content ?? []).filter((item) => item?.type === "diff" && !("oldText" in item));
  if (without.length) notes.push("A diff without oldText is not shown; for a new file it must be null.");
  if (call.locations?.length) notes.push("Locations are ignored.");
  if (!isEmpty(call.input) || !isEmpty(call.output)) notes.push("Raw input and raw output are ignored.");
  const items = (call.content ?? []).filter((item) => !without.includes(item));
  const card = html`<${Card} call=${call} head=${html`${shown(call.title, 300)} ${mark(call)}`}>
    <${Content} call=${call} items=${items} markdown=${true} />
  <//>`;
  return { card, notes };
}

const INPUT_KEYS = [["command", "cmd", "program"], ["path", "file", "filePath", "url"], ["query", "pattern"]];
const OUTPUT_KEYS = ["stdout", "stderr", "output", "content", "text", "message", "result"];

function Acpx(call) {
  const notes = [];
  const input = INPUT_KEYS.flat().map((key) => call.input?.[key]).find((value) => typeof value === "string");
  if (!input) notes.push(`The input has none of the keys that it prints: ${INPUT_KEYS.flat().join(", ")}.`);
  const outputs = typeof call.output === "string" ? [call.output] : OUTPUT_KEYS.map((key) => call.output?.[key]);
  const told = outputs.find((value) => typeof value === "string" && value);
  const text = told ?? textsOf(call).map((item) => str((item.content ?? item).text)).join("\n");
  if (!told && !isEmpty(call.output)) notes.push(`The raw output has none of the keys that it prints: ${OUTPUT_KEYS.join(", ")}.`);
  const lines = [`[tool] ${oneLine(call.title)} (${statusWord(call.status)})`];
  if (input) lines.push(`  input: ${oneLine(input, 200)}`);
  for (const item of call.content ?? []) if (item?.type === "diff") lines.push(`  diff ${oneLine(item.path)}`);
  if (text) lines.push("  output:", ...text.slice(0, 4000).split("\n").map((line) => `    ${plain(line)}`));
  return { card: html`<pre class="code">${lines.join("\n")}</pre>`, notes };
}

function Plain(call) {
  const card = html`<${Card} call=${call} head=${html`${shown(call.title, 300)} <span class="dim">${statusWord(call.status)}</span>`} />`;
  return { card, notes: ["It draws only title and status: what is in neither is not seen."] };
}
