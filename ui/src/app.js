// The page: a list of calls, one of them in detail, and a timeline. The data is in the page, packed.
import { html, render } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import * as m from "./model.js";
import { Content, Frames, Tree } from "./parts.js";
import { NAMES } from "./filter.js";

const ROW = 44;
const TABS = ["card", "data", "frames", "findings"];

function Head() {
  const trace = m.trace.value;
  const wrong = trace.calls.filter((call) => call.findings.length).length;
  const open = trace.calls.filter((call) => call.ended == null).length;
  return html`<header>
    <h1>${m.plain(trace.agent) || "Unknown agent"}</h1>
    <p class="dim">
      ${trace.source} · ${trace.protocol ? `ACP ${trace.protocol}` : "ACP"}${trace.client && ` · ${trace.client}`} · ${trace.calls.length} calls
      ${open ? html` · <b class="bad">${open} never ended</b>` : ""} ${wrong ? html` · <b class="bad">${wrong} with findings</b>` : html` · nothing is wrong`}
      ${trace.usage ? html` · ${usage(trace.usage)}` : ""}
    </p>
    ${trace.unreadable.length > 0 && html`<p class="bad" role="alert">${trace.unreadable.length} lines could not be read: ${trace.unreadable.slice(0, 3).join("; ")}</p>`}
    <${Search} />
  </header>`;
}

const usage = (used) =>
  [used.used != null && `${used.used}${used.size ? ` of ${used.size}` : ""} tokens`, used.cost?.amount != null && `${used.cost.amount} ${used.cost.currency ?? ""}`]
    .filter(Boolean)
    .join(", ");

function Search() {
  const { calls, wrong } = m.found.value;
  return html`<form role="search" onSubmit=${(event) => event.preventDefault()}>
    <input id="search" type="search" aria-label="Filter calls" placeholder='Filter: tool:bash status:failed dur>2s path:src/ text:"timeout"'
      value=${m.query.value} list="terms" onInput=${(event) => ((m.query.value = event.target.value), link())} />
    <datalist id="terms">${NAMES.map((name) => html`<option value=${name} />`)}</datalist>
    <output>${calls.length} of ${m.trace.value.calls.length}</output>
    <button type="button" onClick=${save} title="Save the calls that are listed, as JSON">Export</button>
    ${wrong.length > 0 && html`<span class="bad">not understood: ${wrong.join(" ")}</span>`}
  </form>`;
}

function save() {
  const text = m.found.value.calls.map((call) => JSON.stringify(call)).join("\n") + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
  link.download = "calls.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
}

// A list that draws only the rows that can be seen.
function List() {
  const box = useRef(null);
  const top = useSignal(0);
  const height = useSignal(600);
  useEffect(() => {
    const watch = new ResizeObserver(() => (height.value = box.current.clientHeight));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const calls = m.found.value.calls;
  const first = Math.max(0, Math.floor(top.value / ROW) - 5);
  const shown = calls.slice(first, first + Math.ceil(height.value / ROW) + 10);
  const place = calls.findIndex((call) => m.keyOf(call) === m.chosen.value);
  useEffect(() => {
    const list = box.current;
    if (place < 0) return;
    if (place * ROW < list.scrollTop) list.scrollTop = place * ROW;
    else if ((place + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (place + 1) * ROW - list.clientHeight;
  }, [place]);
  return html`<div class="list" ref=${box} role="listbox" aria-label="Calls" tabindex="0" onScroll=${(event) => (top.value = event.target.scrollTop)}>
    <div style=${{ height: `${calls.length * ROW}px` }}>
      ${shown.map((call, n) => html`<${Row} key=${m.keyOf(call)} call=${call} top=${(first + n) * ROW} />`)}
    </div>
    ${!calls.length && html`<p class="dim empty">No call matches.</p>`}
  </div>`;
}

function Row({ call, top }) {
  const is = m.keyOf(call) === m.chosen.value;
  const facts = [call.kind || "no kind", m.seconds(m.duration(call)) || call.status, m.bytes(call.size)];
  return html`<div class=${`row ${call.status}`} role="option" aria-selected=${is} style=${{ transform: `translateY(${top}px)` }} onClick=${() => choose(call)}>
    <span class="mark" aria-label=${call.status}>${m.MARKS[call.status] ?? "·"}</span>
    <span class="title">${call.parent ? "↳ " : ""}${oneLine(call.title || call.name || call.id)}</span>
    <span class="facts dim">${m.ICONS[call.kind] ?? "∗"} ${facts.join(" · ")}</span>
    ${call.approvals.length > 0 && html`<span class="asked" title="approval">${call.approvals.at(-1).outcome ?? "waits"}</span>`}
    ${call.findings.length > 0 && html`<span class="badge" title="findings">${call.findings.length}</span>`}
  </div>`;
}
const oneLine = (text) => m.plain(text.slice(0, 300).replace(/\s+/g, " "));

function choose(call) {
  m.chosen.value = m.keyOf(call);
  link();
}

function link() {
  const parts = new URLSearchParams();
  if (m.chosen.value) parts.set("call", m.chosen.value);
  if (m.query.value) parts.set("filter", m.query.value);
  if (m.tab.value !== "card") parts.set("tab", m.tab.value);
  history.replaceState(null, "", `#${parts}`);
}

function Detail() {
  const call = m.current.value;
  if (!call) return html`<article class="detail empty dim">Choose a call: click, or j and k. ? lists the keys.</article>`;
  return html`<article class="detail">
    <button class="back" onClick=${() => (m.chosen.value = null)}>← calls</button>
    <h2><span class=${`mark ${call.status}`}>${m.MARKS[call.status]}</span> ${m.plain(call.title.slice(0, 2000))}</h2>
    <p class="dim">${m.plain([call.name, call.kind || "no kind", call.status, call.reason, call.id].filter(Boolean).join(" · "))}
      ${call.name && html` <button class="more" onClick=${() => copy(call)}>copy as callsheet call</button>`}</p>
    <div class="tabs" role="tablist">
      ${TABS.map((name) => html`<button role="tab" aria-selected=${m.tab.value === name} onClick=${() => ((m.tab.value = name), link())}>
        ${name}${name === "findings" && call.findings.length ? ` (${call.findings.length})` : ""}</button>`)}
    </div>
    <div role="tabpanel">${{ card: Card, data: Data, frames: Wire, findings: Findings }[m.tab.value]({ call })}</div>
  </article>`;
}

const copy = (call) => {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  navigator.clipboard?.writeText(`callsheet call ${quoted(call.name)} --json ${quoted(JSON.stringify(call.input ?? {}))}`);
};

function Card({ call }) {
  const old = m.original.value;
  return html`<div>
    <${Timing} call=${call} />
    ${call.locations.length > 0 && html`<p>${call.locations.map((one) => html`<code>${m.plain(one.path)}${one.line ? `:${one.line}` : ""}</code> `)}</p>`}
    ${old && html`<div class="sides"><section><h3>as the agent sent it</h3><${Shown} call=${old} /></section><section><h3>behind the tap</h3><${Shown} call=${call} /></section></div>`}
    ${!old && html`<${Content} items=${call.content} />`}
    ${!call.content.length && html`<p class="dim">It shows no content.</p>`}
  </div>`;
}

const Shown = ({ call }) => html`<div class="card ${call.status}"><h4>${m.MARKS[call.status] ?? "○"} ${m.plain(call.title.slice(0, 500))}</h4>
  <p class="dim">${call.kind || "no kind"} · ${call.input == null || JSON.stringify(call.input) === "{}" ? "no input" : "with its input"}</p><${Content} items=${call.content} /></div>`;

function Timing({ call }) {
  const steps = [["announced", call.announced], ...call.approvals.flatMap((one) => [["asked", one.asked], [`${one.outcome ?? "no answer"}${one.option ? ` (${one.option})` : ""}`, one.answered]]),
    ["started", call.started], ["first output", call.firstOutput], ["ended", call.ended]].filter(([, time]) => time != null);
  return html`<ol class="timing">${steps.map(([name, time]) => html`<li>${name} <span class="dim">${m.trace.value.hasTimes ? `+${m.seconds(time - call.announced)}` : `line ${time}`}</span></li>`)}
    ${call.ended == null && html`<li class="bad">never ended</li>`}</ol>`;
}

const Data = ({ call }) => html`<div><h3>Input</h3><${Tree} value=${call.input} /><h3>Output</h3><${Tree} value=${call.output} /></div>`;
const Wire = ({ call }) => {
  const old = m.original.value;
  return html`<div class=${old ? "sides" : ""}>${old && html`<${Frames} call=${old} title="before" />`}<${Frames} call=${call} title=${old ? "after" : "frames"} /></div>`;
};
const Findings = ({ call }) => {
  const old = m.original.value;
  const all = [...call.findings, ...(old ? old.findings.map((one) => ({ ...one, before: true })) : [])];
  if (!all.length) return html`<p>callsheet check finds nothing wrong with it.</p>`;
  return html`<ul class="findings">${all.map((one) => html`<li class=${one.severity}><b>${one.severity}</b> <code>${one.rule}</code> <span class="dim">line ${one.line}${one.before ? ", as the agent sent it" : ""}</span><br />${one.message}<br /><span class="dim">Fix: ${one.fix}</span></li>`)}</ul>`;
};

// The timeline: a bar for each call, in lanes; idle time is narrow. The cursor replays the session.
function Timeline() {
  const { calls, turns } = m.trace.value;
  if (!calls.length) return null;
  const scale = scaled(calls, turns);
  const lanes = laned(calls);
  const rows = Math.min(12, Math.max(...lanes) + 1);
  const now = m.moment.value;
  const shown = new Set(m.found.value.calls.map(m.keyOf));
  return html`<section class="timeline" aria-label="Timeline">
    <svg viewBox=${`0 0 1000 ${rows * 12 + 6}`} preserveAspectRatio="none" role="img" aria-label=${`${calls.length} calls over ${m.seconds(scale.end - scale.begin)}`}>
      ${turns.map((turn) => html`<rect class="turn" x=${scale.at(turn.begun)} width=${Math.max(1, scale.at(turn.ended ?? scale.end) - scale.at(turn.begun))} y="0" height=${rows * 12 + 6}><title>${m.plain(turn.prompt.slice(0, 200))}</title></rect>`)}
      ${calls.map((call, n) => lanes[n] < rows && html`<rect class=${`bar ${call.status} ${m.keyOf(call) === m.chosen.value ? "on" : ""} ${shown.has(m.keyOf(call)) ? "" : "off"}`}
        x=${scale.at(call.announced)} width=${Math.max(2, scale.at(call.ended ?? scale.end) - scale.at(call.announced))} y=${lanes[n] * 12 + 3} height="9" rx="1" onClick=${() => choose(call)}><title>${m.plain(call.title.slice(0, 200))}</title></rect>`)}
      ${now != null && html`<line class="now" x1=${scale.at(now)} x2=${scale.at(now)} y1="0" y2=${rows * 12 + 6} />`}
    </svg>
    <label class="scrubber"><span class="dim">replay</span>
      <input type="range" min="0" max="1000" step="1" value=${now == null ? 1000 : scale.at(now)} aria-label="Replay to a moment"
        onInput=${(event) => (m.moment.value = +event.target.value >= 1000 ? null : scale.back(+event.target.value))} />
      <output class="dim">${now == null ? "end" : m.trace.value.hasTimes ? `+${m.seconds(now - scale.begin)}` : `line ${Math.round(now)}`}</output></label>
  </section>`;
}

// Times to 0 … 1000. Gaps in which nothing happens count as a twentieth of their length.
function scaled(calls, turns) {
  const busy = [...calls.map((one) => [one.announced, one.ended ?? one.announced]), ...turns.flatMap((one) => [[one.begun, one.begun], [one.ended ?? one.begun, one.ended ?? one.begun]])].sort((a, b) => a[0] - b[0]);
  const points = [[busy[0][0], 0]];
  let end = busy[0][0];
  let sum = 0;
  for (const [from, to] of busy) {
    if (from > end) points.push([from, (sum += (from - end) * 0.05)]), (end = from);
    if (to > end) points.push([to, (sum += to - end)]), (end = to);
  }
  const total = sum || 1;
  const between = (list, value, a, b) => {
    const after = list.findIndex((point) => point[a] >= value);
    if (after < 0) return list.at(-1)[b];
    if (after === 0) return list[0][b];
    const [left, right] = [list[after - 1], list[after]];
    return left[b] + ((value - left[a]) / (right[a] - left[a] || 1)) * (right[b] - left[b]);
  };
  return { begin: busy[0][0], end, at: (time) => (between(points, time, 0, 1) / total) * 1000, back: (x) => between(points, (x / 1000) * total, 1, 0) };
}

function laned(calls) {
  const free = [];
  return calls.map((call) => {
    let lane = free.findIndex((time) => time <= call.announced);
    if (lane < 0) lane = free.length;
    free[lane] = call.ended ?? Infinity;
    return lane;
  });
}

const KEYS = { j: "next call", k: "previous call", "/": "filter", o: "open or close its frames", "1–4": "tabs", Escape: "back to the list", "?": "these keys" };
const help = { shown: null };
function Help() {
  const dialog = useRef(null);
  help.shown = () => (dialog.current.open ? dialog.current.close() : dialog.current.showModal());
  return html`<dialog ref=${dialog}><h2>Keys</h2><dl>${Object.entries(KEYS).map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl><button onClick=${() => dialog.current.close()}>Close</button></dialog>`;
}

function pressed(event) {
  if (event.target.matches("input, textarea") && event.key !== "Escape") return;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const { calls } = m.found.value;
  const place = calls.findIndex((call) => m.keyOf(call) === m.chosen.value);
  const go = (n) => calls.length && choose(calls[Math.max(0, Math.min(calls.length - 1, n))]);
  const act = {
    j: () => go(place + 1),
    k: () => go(place < 0 ? 0 : place - 1),
    "/": () => document.getElementById("search").focus(),
    o: () => ((m.tab.value = m.tab.value === "frames" ? "card" : "frames"), link()),
    Escape: () => (event.target.matches("input") ? event.target.blur() : (m.chosen.value = null)),
    "?": () => help.shown(),
  }[event.key] ?? (/^[1-4]$/.test(event.key) ? () => ((m.tab.value = TABS[event.key - 1]), link()) : null);
  if (act) event.preventDefault(), act();
}

function App() {
  if (m.problem.value) return html`<p class="bad" role="alert">${m.problem.value}</p>`;
  if (!m.trace.value) return html`<p class="dim">Reading …</p>`;
  return html`<${Head} /><${Timeline} /><main class=${m.current.value ? "with-detail" : ""}><${List} /><${Detail} /></main><${Help} />`;
}

async function unpacked(id) {
  const element = document.getElementById(id);
  if (!element) return null;
  const packed = Uint8Array.from(atob(element.textContent.trim()), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  m.query.value = parts.get("filter") ?? "";
  m.chosen.value = parts.get("call");
  m.tab.value = TABS.includes(parts.get("tab")) ? parts.get("tab") : "card";
}

restore();
addEventListener("hashchange", restore);
addEventListener("keydown", pressed);
render(html`<${App} />`, document.getElementById("app"));
unpacked("data")
  .then((data) => ((m.before.value = data.before), (m.trace.value = data.trace)))
  .catch((error) => (m.problem.value = `The data of this page can't be read: ${error.message}`));
