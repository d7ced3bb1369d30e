// One call in detail: its card, its data, its frames, what is wrong with it, and its timing.
import { html } from "htm/preact";
import { Boundary } from "./boundary.js";
import { CLIENTS, ClientCard } from "./clients.js";
import { bytes, oneLine, plain, plural, durationText, statusWord } from "./format.js";
import { Frames } from "./frames.js";
import { Mark } from "./icons.js";
import { CodeSpans } from "./markdown.js";
import { commandOf, duration, repairedOf, shortTitle } from "./model.js";
import { permissionText } from "./permission.js";
import { setTab } from "./route.js";
import * as s from "./store.js";
import { TimingLine, TimingTable } from "./timing.js";
import { Tree } from "./tree.js";
import { whoOf, whoText } from "./who.js";

const NAMES = { card: "Card", data: "Data", frames: "Frames", findings: "Findings", timing: "Timing" };

/* Args:
     call: a TracedCall
     old: the same call as the agent sent it, or null
     context: `{hasTimes, who, cwd}`, or a trace
     onClose: closes the detail
     more: buttons of the view */
export function CallDetail({ call, old, context, onClose, more }) {
  const active = s.tab.value;
  const count = call.findings.length + (old?.findings.length ?? 0);
  const command = commandOf(call);
  const title = call.title && shortTitle(call, { sessions: { [call.session]: context.cwd }, ...context });
  return html`<article class="detail" aria-label="Call">
    <div class="bar">
      <button class="back" onClick=${onClose}>← Calls</button>
      <span class="grow"></span>
      ${more}
      ${command && html`<button onClick=${() => copy(command)} title="Copy a command that runs the same call">Copy as command</button>`}
      <button class="close" aria-label="Close" title="Close (Escape)" onClick=${onClose}>×</button>
    </div>
    <h2><${Mark} status=${call.status} />
      <span class="title"> ${title ? html`<${CodeSpans} text=${plain(title.slice(0, 1000))} />` : html`<i class="dim">no title</i>`}</span></h2>
    <${Facts} call=${call} context=${context} />
    <div class="tabs" role="tablist" aria-label="Detail">
      ${s.TABS.map((name, n) => html`<button
        role="tab" id=${`tab-${name}`} aria-controls="tabpanel" aria-selected=${active === name} tabindex=${active === name ? 0 : -1}
        title=${`key ${n + 1}`} onClick=${() => setTab(name)} onKeyDown=${moveTab}
      >${NAMES[name]}${name === "findings" && count > 0 &&
      html` <span class=${call.findings.length ? "badge" : "badge mended"}>${count}</span>`}</button>`)}
    </div>
    <div role="tabpanel" id="tabpanel" aria-labelledby=${`tab-${active}`} tabindex="0">
      <${Boundary} key=${call.key + active} of=${call}>
        ${html`<${PANELS[active]} call=${call} old=${old} context=${context} />`}
      <//>
    </div>
  </article>`;
}

function moveTab(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const tabs = [...event.currentTarget.parentNode.children];
  const next = tabs[(tabs.indexOf(event.currentTarget) + step + tabs.length) % tabs.length];
  next.focus();
  next.click();
}

function Facts({ call, context }) {
  const took = duration(call);
  const facts = [
    ["tool", call.name], ["kind", call.kind || "none"], ["status", [...new Set([statusWord(call.status), call.reason])].filter(Boolean).join(", ")],
    ["took", took != null && context.hasTimes && durationText(took)], ["size", bytes(call.size)],
    ["permission", permissionText(call)], ["repaired", repairedOf(call).join(", ")],
    ["secrets", call.secrets > 0 && `${call.secrets} hidden`], ["parent", call.parent], ["who", whoText(whoOf(call, context)) || "unknown"],
    ["id", call.id],
  ].filter(([, value]) => value);
  return html`<dl class="facts">
    ${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${oneLine(value, 120)}</dd></div>`)}
  </dl>`;
}

async function copy(command) {
  try {
    await navigator.clipboard.writeText(command);
    s.say("Copied the command.");
  } catch {
    s.say("The browser does not let this page copy.");
  }
}

function Card({ call, old, context }) {
  const client = s.client.value;
  return html`<div>
    <${TimingLine} call=${call} hasTimes=${context.hasTimes} />
    <div class="switch" role="radiogroup" aria-label="As drawn by">
      <span class="dim">As drawn by</span>
      ${Object.entries(CLIENTS).map(([name, label]) => html`<button
        role="radio" aria-checked=${client === name} onClick=${() => (s.client.value = name)}>${label}</button>`)}
    </div>
    ${old
      ? html`<div class="sides">
          <section><h3>As the agent sent it</h3><${Drawn} client=${client} call=${old} /></section>
          <section><h3>Behind the tap</h3><${Drawn} client=${client} call=${call} /></section>
        </div>`
      : html`<${Drawn} client=${client} call=${call} />`}
  </div>`;
}

// What one client can't draw, another may.
const Drawn = ({ client, call }) =>
  html`<${Boundary} key=${client} of=${call}><${ClientCard} client=${client} call=${call} /><//>`;

const Data = ({ call }) => html`<div>
  <h3>Input</h3><${Tree} value=${call.input ?? undefined} />
  <h3>Output</h3><${Tree} value=${call.output ?? undefined} />
</div>`;

const Wire = ({ call, old, context }) => html`<div class=${old ? "sides" : ""}>
  ${old && html`<${Frames} call=${old} title="Before" hasTimes=${context.hasTimes} />`}
  <${Frames} call=${call} title=${old ? "After" : "Frames"} hasTimes=${context.hasTimes} />
</div>`;

function Findings({ call, old }) {
  const repaired = repairedOf(call);
  const fixed = repaired.length > 0 && html`<p>The tap repaired: ${repaired.map((name) => html`<code>${oneLine(name, 80)}</code> `)}</p>`;
  if (old) {
    return html`<div>
      <p>${plural(old.findings.length, "finding")} before, ${call.findings.length} after.</p>
      ${fixed}
      ${old.findings.length > 0 && html`<h3>As the agent sent it</h3><${List} findings=${old.findings} />`}
      ${call.findings.length > 0 && html`<h3>Behind the tap</h3><${List} findings=${call.findings} />`}
    </div>`;
  }
  return html`<div>
    ${fixed}
    ${call.findings.length
      ? html`<${List} findings=${call.findings} />`
      : html`<p><span class="good">✓</span> callsheet check finds nothing wrong with it${repairedOf(call).length + call.secrets > 0 ? " now" : ""}.</p>`}
  </div>`;
}

export const List = ({ findings }) => html`<ul class="findings">
  ${findings.map((one) => html`<li class=${one.severity}>
    <b>${one.severity}</b> <code>${one.rule}</code> <span class="dim">line ${one.line}</span>
    <p>${plain(one.message)}</p>
    ${one.fix && html`<p class="dim">Fix: ${one.fix}</p>`}
  </li>`)}
</ul>`;

const Timing = ({ call, context }) => html`<${TimingTable} call=${call} hasTimes=${context.hasTimes} />`;

const PANELS = { card: Card, data: Data, frames: Wire, findings: Findings, timing: Timing };
