// Two sessions side by side, their calls aligned.
import { html } from "htm/preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import * as api from "./api.js";
import { oneLine, plural, durationText } from "./format.js";
import { Mark } from "./icons.js";
import { navigation } from "./keys.js";
import { CodeSpans } from "./markdown.js";
import { comparedRows, duration, shortTitle, withKeys } from "./model.js";
import { go } from "./route.js";
import { SessionField } from "./sessions.js";
import * as s from "./store.js";

function useTrace(id) {
  const [got, set] = useState(null);
  useEffect(() => {
    if (!id) return set(null);
    let mine = true;
    set(null);
    api.get("session", { id }).then(
      (data) => mine && set({ trace: withKeys(data.trace) }),
      (error) => mine && set({ error: error.message }),
    );
    return () => (mine = false);
  }, [id]);
  return got;
}

export function Compare() {
  navigation.value = null;
  useEffect(() => void (s.sessions.value.loaded || s.moreSessions(true)), []);
  const [one, other] = [s.sessionId.value, s.otherId.value];
  const [a, b] = [useTrace(one), useTrace(other)];
  const [onlyDifferent, filter] = useState(false);
  const rows = useMemo(() => (a?.trace && b?.trace ? comparedRows(a.trace, b.trace) : []), [a, b]);
  const different = rows.filter((row) => row.differs.length);
  const pick = (left, right) => go("compare", { session: left, other: right });
  return html`<div class="view compare">
    <div class="toolbar">
      <${SessionField} label="Left" value=${one} onPick=${(id) => pick(id, other)} />
      <button aria-label="Swap" title="Swap" onClick=${() => pick(other, one)}>⇄</button>
      <${SessionField} label="Right" value=${other} onPick=${(id) => pick(one, id)} />
    </div>
    ${[a, b].map((got) => got?.error && html`<p class="bad page-problem" role="alert">${got.error}</p>`)}
    ${rows.length > 0 && html`<div class="toolbar">
      <output aria-live="polite">${plural(rows.length, "row")}, ${different.length} differ</output>
      <label class="check">
        <input type="checkbox" checked=${onlyDifferent} onChange=${(event) => filter(event.target.checked)} /> Only differences
      </label>
    </div>`}
    ${a?.trace && b?.trace && html`<div class="scroll" tabindex="0"><table class="pairs">
      <thead>
        <tr>
          <th>${oneLine(a.trace.agent || one, 60)}</th><th class="right">took</th>
          <th class="right">took</th><th>${oneLine(b.trace.agent || other, 60)}</th>
        </tr>
      </thead>
      <tbody>${(onlyDifferent ? different : rows).map((row) => html`<tr class=${row.differs.length ? "differs" : ""}>
        <${Side} call=${row.left} differs=${row.differs} session=${one} trace=${a.trace} />
        <td class=${`right ${row.differs.includes("duration") ? "marked" : ""}`}>${took(row.left, a.trace)}</td>
        <td class=${`right ${row.differs.includes("duration") ? "marked" : ""}`}>${took(row.right, b.trace)}</td>
        <${Side} call=${row.right} differs=${row.differs} session=${other} trace=${b.trace} />
      </tr>`)}</tbody>
    </table>
    ${!rows.length && html`<p class="dim page-problem">Neither session has a call.</p>`}</div>`}
    ${!(one && other) && html`<p class="dim page-problem">Choose two sessions: their calls are shown side by side.</p>`}
  </div>`;
}

const took = (call, trace) => (call && trace.hasTimes ? durationText(duration(call)) : "");

function Side({ call, differs, session, trace }) {
  if (!call) return html`<td class="gap"><span class="hidden">no such call</span></td>`;
  const names = [differs.includes("status") && "marked", differs.includes("title") && "retitled", differs[0]?.startsWith("only") && "only"];
  return html`<td class=${names.filter(Boolean).join(" ")}>
    <div>
      <${Mark} status=${call.status} />
      <button class="pick" onClick=${() => go("session", { session, call: call.key })}>
        <${CodeSpans} text=${oneLine(shortTitle(call, trace), 160)} /></button>
      ${call.reason && html`<span class="dim">${oneLine(call.reason, 40)}</span>`}
    </div>
  </td>`;
}
