// All calls of the history, live: one row for each, the newest at the bottom.
import { html } from "htm/preact";
import { useEffect } from "preact/hooks";
import * as api from "./api.js";
import { Boundary } from "./boundary.js";
import { CallDetail } from "./detail.js";
import { FilterBar } from "./filterbar.js";
import { clock, oneLine, plural, durationText, bytes, statusClass, statusWord } from "./format.js";
import { Frames } from "./frames.js";
import { Chevron, KindIcon, Mark } from "./icons.js";
import { navigation } from "./keys.js";
import * as live from "./live.js";
import { CodeSpans } from "./markdown.js";
import { partsOf, shortTitle } from "./model.js";
import { PermissionCell } from "./permission.js";
import { choose, go } from "./route.js";
import * as s from "./store.js";
import { VirtualList } from "./virtual.js";
import { agentName, whoText } from "./who.js";

// How high rows are: in one line where all columns have room (see list.css), else in two.
const rowHeight = (width) => (width > 1100 ? 32 : 44);
// How high the frames below a row are: as many as there are, and some room to open one.
const panelHeight = (count) => Math.min(320, 96 + 32 * count);
const COLUMNS = ["", "Call", "Tool", "Agent", "Session", "Time", "Took", "Size", "Permission", "Findings"];

export function Calls() {
  const query = s.query.value;
  useEffect(() => {
    const timer = setTimeout(live.restart, live.total.value == null ? 0 : 120);
    return () => clearTimeout(timer);
  }, [query]);
  live.drawn.value; // rows are no signals themselves
  const count = live.total.value ?? 0;
  const key = s.chosen.value;
  const version = s.state.value.version;
  const shown = live.detail.value;
  useEffect(() => {
    if (!key) return;
    const { session, id } = partsOf(key);
    const isOld = shown?.key !== key || (shown.version !== version && (shown.error || shown.call.ended == null));
    if (isOld) live.readCall(key, session, id);
  }, [key, version, shown]);
  const pick = (n) => {
    const at = Math.max(0, Math.min(count - 1, n));
    if (!count) return;
    live.pick(at);
    const list = document.getElementById("calls")?.parentNode;
    if (list && list.scrollHeight > list.clientHeight + 4) live.setFollow(at === count - 1);
  };
  navigation.value = {
    count, place: live.place.value, go: pick, close: () => choose(null),
    expand: () => live.place.value >= 0 && (live.expanded.value = live.expanded.value === live.place.value ? -1 : live.place.value),
  };
  const expanded = live.expanded.value;
  const isOpen = expanded >= 0 && expanded < count;
  const panel = isOpen
    ? { after: expanded, height: panelHeight(live.frames.value?.call?.frames.length ?? 1), node: html`<${Expanded} row=${live.rowAt(expanded)} />` }
    : null;
  const fresh = live.follow.value ? 0 : Math.max(0, count - live.left.value);
  return html`<div class="view calls">
    <${FilterBar} count=${live.total.value} total=${query.trim() ? s.state.value.total : null} wrong=${live.wrong.value} onExport=${save} />
    <main class=${key ? "with-detail" : ""}>
      <section class="table" aria-label="Calls">
        <div class="head" aria-hidden="true">${COLUMNS.map((name) => html`<span>${name}</span>`)}</div>
        <${VirtualList}
          id="calls" label="Calls" rowHeight=${rowHeight} count=${count} place=${live.place.value} panel=${panel} follow=${live.follow.value}
          onFollow=${live.setFollow} onSeen=${live.onSeen} empty=${html`<${Empty} query=${query} />`}
          of=${live.rowAt} row=${(n) => html`<${Row} row=${live.rowAt(n)} n=${n} pick=${pick} isOpen=${n === expanded} />`}
        />
        ${!live.follow.value && html`<button class="newest" onClick=${() => live.setFollow(true)}>
          ${fresh > 0 ? `${fresh.toLocaleString("en")} new ↓` : "Newest ↓"}</button>`}
      </section>
      ${key && html`<${Boundary} of=${shown}><${Chosen} shown=${shown?.key === key ? shown : null} /><//>`}
    </main>
  </div>`;
}

const save = () =>
  api.download("export", { filter: s.query.value }, "calls.jsonl").then(() => s.say("Exported."), (error) => s.say(error.message));

function Empty({ query }) {
  const isKnown = live.total.value != null;
  if (!isKnown && !s.state.value.problem) {
    if (s.link.value === "refused") return null; // the banner says it
    return live.problem.value ? html`<p class="bad" role="alert">${oneLine(live.problem.value, 500)}</p>` : html`<p class="dim">Reading …</p>`;
  }
  if (isKnown && query.trim()) return html`<p>No call matches.</p>`;
  if (!isKnown && !s.state.value.isNew) return html`<h2>No calls can be shown</h2><p class="dim">They are shown as soon as the history can be read.</p>`;
  return html`<h2>No calls yet</h2>
    <p>Calls appear here as soon as an agent or a tap with this history makes one:</p>
    <pre class="code">callsheet call bash command='echo hello'
callsheet tap -- your-agent
callsheet history import recording.jsonl</pre>`;
}

function Row({ row, n, pick, isOpen }) {
  if (!row) return html`<div class="row skeleton"><span></span><span></span></div>`;
  const running = live.isRunning(row);
  const count = live.judged.get(row.key);
  return html`<div class=${`row ${statusClass(row.status)}`} onClick=${() => pick(n)}>
    <${Mark} status=${row.status} label=${oneLine([statusWord(row.status), row.reason].filter(Boolean).join(", "))} />
    <span class="title">${row.parent ? "↳ " : ""}<${CodeSpans} text=${oneLine(shortTitle(row, { sessions: { [row.session]: row.cwd } }))} /></span>
    <span class="c-kind"><${KindIcon} kind=${row.kind} /> ${oneLine(row.name || row.kind || "other", 60)}</span>
    <span class="c-agent" title=${oneLine(whoText(row.who))}>
      ${oneLine([live.users.size > 1 && row.who.user, agentName(row.who)].filter(Boolean).join(" · "), 60)}</span>
    <span class="c-session" title=${oneLine(row.session, 200)}>${oneLine(row.session, 80)}</span>
    <span class="c-at">${clock(row.at)}</span>
    <span class="c-took">${running ? html`<span class="busy">${statusWord(row.status)}</span>` : durationText(row.durationMs)}</span>
    <span class="c-size">${bytes(row.size)}</span>
    <span class="c-asked"><${PermissionCell} call=${row} /></span>
    <span class="c-more">
      ${count > 0 && html`<span class="badge" title=${plural(count, "finding")}>${count}</span>`}
      ${row.repaired.length > 0 &&
      html`<span class="badge mended" title=${oneLine(`The tap repaired ${row.repaired.join(", ")}`)}>${row.repaired.length}</span>`}
      <span class="chevron" aria-hidden="true" title="Frames (o)"
        onClick=${(event) => (event.stopPropagation(), (live.expanded.value = isOpen ? -1 : n))}><${Chevron} isOpen=${isOpen} /></span>
    </span>
  </div>`;
}

// The frames of a call, below its row.
function Expanded({ row }) {
  const key = row?.key;
  useEffect(() => {
    if (row && live.frames.value?.key !== key) live.readFrames(row);
  }, [key]);
  const got = live.frames.value;
  if (!row || got?.key !== key) return html`<p class="dim">Reading …</p>`;
  if (got.error) return html`<p class="bad">${got.error}</p>`;
  return html`<${Frames} call=${got.call} title=${plural(got.call.frames.length, "frame")} hasTimes=${got.hasTimes} />`;
}

function Chosen({ shown }) {
  if (!shown) return html`<article class="detail"><p class="dim">Reading …</p></article>`;
  const close = () => choose(null);
  if (shown.error) {
    return html`<article class="detail">
      <button class="back" onClick=${close}>← Calls</button>
      <p class="bad">${shown.error}</p>
    </article>`;
  }
  const open = () => go("session", { session: shown.call.session, call: shown.key });
  const more = html`<button onClick=${open} title="The whole session, with its timeline">Open session</button>`;
  return html`<${CallDetail} call=${shown.call} old=${null} context=${shown} onClose=${close} more=${more} />`;
}
