// A session or a recording: its timeline, its story (prompts, messages and calls in order), and one of them in detail.
import { html } from "htm/preact";
import { saveAs } from "./api.js";
import { Boundary } from "./boundary.js";
import { CallDetail, List as FindingList } from "./detail.js";
import { FilterBar } from "./filterbar.js";
import { bytes, oneLine, plain, plural, durationText, statusClass, statusWord } from "./format.js";
import { KindIcon, Mark, SaidMark } from "./icons.js";
import { navigation } from "./keys.js";
import { CodeSpans, Markdown } from "./markdown.js";
import { brokenRules, duration, planOf, repairedOf, shortTitle, stopOf, usageText } from "./model.js";
import { PermissionCell } from "./permission.js";
import { choose, go } from "./route.js";
import * as s from "./store.js";
import { Timeline } from "./timeline.js";
import { VirtualList } from "./virtual.js";
import { agentName, whoText } from "./who.js";

export function SessionView() {
  if (s.problem.value) return html`<p class="bad page-problem" role="alert">${s.problem.value}</p>`;
  const trace = s.trace.value;
  if (!trace) return html`<p class="dim page-problem">Reading …</p>`;
  const items = s.story.value;
  const place = items.findIndex((item) => item.key === s.chosen.value);
  const pick = (n) => items.length && choose(items[Math.max(0, Math.min(items.length - 1, n))].key);
  navigation.value = { count: items.length, place, go: pick, close: () => choose(null) };
  const { calls, total, wrong } = s.found.value;
  const item = s.currentItem.value;
  return html`<div class="view session">
    <${Boundary} of=${trace}><${Head} trace=${trace} /><//>
    <${Boundary} of=${trace}><${Timeline} /><//>
    <${FilterBar} count=${calls.length} total=${total} wrong=${wrong} onExport=${save}>
      ${trace.messages.length + trace.turns.length > 0 && html`<label class="check">
        <input type="checkbox" checked=${s.showMessages.value} onChange=${toggleMessages} /> Messages</label>`}
    <//>
    <main class=${item ? "with-detail" : ""}>
      <section class="table" aria-label="Calls">
        <${VirtualList}
          id="story" label="Calls and messages" rowHeight=${() => 44} count=${items.length} place=${place}
          of=${(n) => items[n]} row=${(n) => html`<${Item} item=${items[n]} trace=${trace} />`}
          empty=${html`<p class="dim">${s.query.value ? "No call matches." : "Nothing has happened yet."}</p>`}
        />
      </section>
      <${Boundary} of=${item ?? trace}><${Detail} item=${item} trace=${trace} /><//>
    </main>
  </div>`;
}

const toggleMessages = (event) => (s.showMessages.value = event.target.checked);

function Head({ trace }) {
  const old = s.before.value;
  const open = trace.calls.filter((call) => call.ended == null).length;
  const count = (one) => one.findings.length + one.calls.reduce((sum, call) => sum + call.findings.length, 0);
  const cwd = Object.values(trace.sessions)[0];
  const facts = [
    trace.protocol && `ACP ${trace.protocol}`, whoText({ ...trace.who, agent: "" }), plural(trace.calls.length, "call"),
    trace.turns.length > 0 && plural(trace.turns.length, "turn"), usageText(trace.usage),
  ].filter(Boolean);
  return html`<header class="session-head">
    <div>
      <div class="named"><h1>${oneLine(agentName(trace)) || "Unknown agent"}</h1>${cwd && html`<code class="dim">${oneLine(cwd, 120)}</code>`}</div>
      <p class="dim">
        <span class="source">${oneLine(trace.source, 120)}</span> · ${facts.map((text) => oneLine(text, 80)).join(" · ")}
        ${open > 0 && html` · <b class=${s.isServed.value ? "busy" : "bad"}>${open} ${s.isServed.value ? "running" : "never ended"}</b>`}
        ${" · "}<${Verdict} found=${count(trace)} before=${old && count(old)} calls=${trace.calls} />
      </p>
    </div>
    ${s.isServed.value && html`<button onClick=${() => go("compare", { session: s.sessionId.value })}>Compare …</button>`}
    ${trace.unreadable.length > 0 && html`<${Unreadable} lines=${trace.unreadable} />`}
  </header>`;
}

function Verdict({ found, before, calls }) {
  if (before) {
    const name = found ? "bad" : "warn";
    return html`<b class=${name}>${plural(before, "finding")} before, ${found.toLocaleString("en")} after</b>`;
  }
  const repairs = repairsText(calls);
  return [
    found ? html`<b class="bad">${plural(found, "finding")}</b>` : html`<span class="good">nothing is wrong${repairs && " now"}</span>`,
    repairs && html` · <span class="warn">${repairs}</span>`,
  ];
}

// What the tap has put right, as it has noted: what it shows must not look as if the agent had sent it.
function repairsText(calls) {
  const secrets = calls.reduce((sum, call) => sum + call.secrets, 0);
  const facts = [
    [calls.filter((call) => repairedOf(call).length > 0).length, (n) => `${plural(n, "call")} repaired`],
    [calls.filter((call) => repairedOf(call).includes("end")).length, (n) => `${n.toLocaleString("en")} had not ended`],
    [secrets, (n) => `${plural(n, "secret")} hidden`],
  ];
  return facts.filter(([n]) => n > 0).map(([n, say]) => say(n)).join(", ");
}

function Unreadable({ lines }) {
  return html`<details class="unreadable bad" role="alert">
    <summary>${lines.length === 1 ? "" : `${lines.length} things could not be read: `}${oneLine(lines[0], 200)}</summary>
    <ul>${lines.slice(0, 100).map((line) => html`<li>${oneLine(line, 300)}</li>`)}</ul>
  </details>`;
}

function save() {
  const text = s.found.value.calls.map(({ key, ...call }) => JSON.stringify(call)).join("\n") + "\n";
  saveAs(new Blob([text], { type: "application/jsonl" }), "calls.jsonl");
}

// Rows

function Item({ item, trace }) {
  if (item.type === "turn") return html`<${TurnRow} item=${item} />`;
  if (item.type === "message") return html`<${MessageRow} item=${item} />`;
  return html`<${CallRow} call=${item.call} hasTimes=${trace.hasTimes} />`;
}

function TurnRow({ item }) {
  const plan = planOf(item.turn, s.moment.value);
  const done = plan.filter((entry) => entry.status === "completed").length;
  const facts = [
    `turn ${item.n + 1}`, oneLine(stopOf(item.turn, s.moment.value), 40), plan.length > 0 && `plan ${done}/${plan.length}`,
    usageText(item.turn.usage),
  ];
  return html`<div class="note turn-row" onClick=${() => choose(item.key)}>
    <${SaidMark} what="prompt" />
    <span class="title">${oneLine(item.turn.prompt) || html`<i>prompt without text</i>`}</span>
    <span class="facts">${facts.filter(Boolean).join(" · ")}</span>
  </div>`;
}

function MessageRow({ item }) {
  return html`<div class=${`note ${item.message.kind}`} onClick=${() => choose(item.key)}>
    <${SaidMark} what=${item.message.kind} />
    <span class="title">${oneLine(item.message.text) || html`<i>empty</i>`}</span>
  </div>`;
}

function CallRow({ call, hasTimes }) {
  const took = duration(call);
  const facts = [
    call.name || call.kind || "no kind", took == null ? statusWord(call.status) : hasTimes && durationText(took),
    bytes(call.size), call.reason,
  ].filter(Boolean);
  const old = s.originalOf(call);
  const before = old?.findings.length ?? 0;
  const now = call.findings.length;
  const mended = before || repairedOf(call).length;
  const told = before ? `${plural(before, "finding")} before, none after` : oneLine(`The tap repaired ${repairedOf(call).join(", ")}`, 200);
  return html`<div class=${`row two ${statusClass(call.status)} ${call.parent ? "child" : ""}`} onClick=${() => choose(call.key)}>
    <${Mark} status=${call.status} />
    <span class="title">${call.parent ? "↳ " : ""}<${CodeSpans} text=${oneLine(shortTitle(call, s.trace.value))} /></span>
    <span class="facts"><${KindIcon} kind=${call.kind} /> ${oneLine(facts.join(" · "), 160)}</span>
    <span class="c-asked"><${PermissionCell} call=${call} /></span>
    <span class="c-more">
      ${mended > 0 && !now && html`<span class="badge mended" title=${told}>${mended}</span>`}
      ${now > 0 && html`<span class="badge" title=${plural(now, "finding")}>${now}</span>`}
    </span>
  </div>`;
}

// Details

function Detail({ item, trace }) {
  const close = () => choose(null);
  if (!item) return html`<article class="detail"><${Overview} trace=${trace} /></article>`;
  if (item.type === "call") {
    return html`<${CallDetail} call=${item.call} old=${s.originalOf(item.call)} context=${trace} onClose=${close} />`;
  }
  const bar = html`<div class="bar"><button class="back" onClick=${close}>← Calls</button><span class="grow"></span>
    <button class="close" aria-label="Close" onClick=${close}>×</button></div>`;
  if (item.type === "turn") {
    return html`<article class="detail">${bar}<h2>Turn ${item.n + 1}</h2>
      <div role="tabpanel" id="tabpanel" tabindex="0">
        <h3>Prompt</h3><p class="prompt">${plain(item.turn.prompt.slice(0, 20_000)) || html`<i class="dim">no text</i>`}</p>
        <${Plan} entries=${planOf(item.turn, s.moment.value)} />
        <p class="dim">
          ${stopOf(item.turn, s.moment.value) ? `It ended: ${oneLine(item.turn.stop, 60)}. ` : "It has not ended. "}${usageText(item.turn.usage)}</p>
      </div></article>`;
  }
  return html`<article class="detail">${bar}<h2>${item.message.kind === "thought" ? "Thought" : "Message"}</h2>
    <div role="tabpanel" id="tabpanel" tabindex="0"><${Markdown} text=${item.message.text} /></div></article>`;
}

const Plan = ({ entries }) =>
  entries.length > 0 &&
  html`<h3>Plan</h3><ol class="plan">${entries.map((entry) => html`<li class=${statusClass(entry.status)}>
    <${Mark} status=${entry.status} />
    ${` ${oneLine(entry.content, 500)}`}${entry.priority && html` <span class="dim">${oneLine(entry.priority, 20)}</span>`}</li>`)}</ol>`;

// What is known of all of it, where nothing is chosen.
function Overview({ trace }) {
  const calls = s.found.value.calls;
  const counts = Map.groupBy ? Map.groupBy(calls, (call) => call.status) : new Map();
  const turn = trace.turns.filter((one) => planOf(one, s.moment.value).length).at(-1);
  const slow = trace.hasTimes ? [...calls].filter((call) => call.ended != null).sort((a, b) => duration(b) - duration(a)).slice(0, 5) : [];
  const wrong = [...(s.before.value?.findings ?? []), ...trace.findings];
  return html`<div class="overview">
    ${calls.length > 0
      ? html`<h2>${plural(calls.length, "call")}</h2>
          <ul class="counts">${[...counts].map(([status, list]) => html`<li><${Mark} status=${status} />
            ${list.length.toLocaleString("en")} ${statusWord(status)}</li>`)}</ul>`
      : html`<h2>No calls</h2>
          <p class="dim">
            ${trace.messages.length ? "The agent only wrote messages: they are in the list." : "There is no tool call in it."}
          </p>`}
    ${turn && html`<${Plan} entries=${planOf(turn, s.moment.value)} />`}
    ${slow.length > 1 && html`<h3>Slowest</h3><ul class="slowest">${slow.map((call) => html`<li>
      <button class="more" onClick=${() => choose(call.key)}><${CodeSpans} text=${oneLine(shortTitle(call, trace), 80)} /></button>
      ${" "}<span class="dim">${durationText(duration(call))}</span></li>`)}</ul>`}
    <${Rules} trace=${trace} />
    ${wrong.length > 0 && html`<h3>Apart from calls</h3><${FindingList} findings=${wrong} />`}
    ${calls.some((call) => s.originalOf(call)?.findings.length || repairedOf(call).length) &&
    html`<p class="dim"><span class="badge mended">n</span> repaired by the tap</p>`}
    ${s.story.value.length > 0 && html`<p class="dim hint-line">Choose a row: click, or <kbd>j</kbd> <kbd>k</kbd>. <kbd>?</kbd> lists all keys.</p>`}
  </div>`;
}

// Which rules are broken, and how often.
function Rules({ trace }) {
  const now = brokenRules(trace.calls.flatMap((call) => call.findings));
  const old = brokenRules((s.before.value?.calls ?? []).flatMap((call) => call.findings));
  const left = new Map(now.map(({ rule, count }) => [rule, count]));
  const repaired = old.map((one) => ({ ...one, count: one.count - (left.get(one.rule) ?? 0) })).filter(({ count }) => count > 0);
  return html`<${RuleList} title="What the tap repaired" rules=${repaired} />
    <${RuleList} title=${s.before.value ? "What is still wrong" : "What is wrong"} rules=${now} />`;
}

const RuleList = ({ title, rules }) =>
  rules.length > 0 &&
  html`<h3>${title}</h3><ul class="rules">
    ${rules.map(({ rule, severity, count }) => html`<li class=${severity} title=${severity}><b>${count}</b> <code>${rule}</code></li>`)}</ul>`;
