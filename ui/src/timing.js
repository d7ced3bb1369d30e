// A call's life: announced, asked, approved, started, first output, ended. As a line, and as a table with bars.
import { html } from "htm/preact";
import { durationText, num, oneLine } from "./format.js";

// The steps of a life: `[name, time]`, in order.
function stepsOf(call) {
  const answered = (one) => `${oneLine(one.outcome, 40) || "no answer"}${one.option ? ` (${oneLine(one.option, 60)})` : ""}`;
  const steps = [
    ["announced", call.announced],
    ...call.approvals.flatMap((one) => [["asked", one.asked], [answered(one), one.answered]]),
    ["started", call.started],
    ["first output", call.firstOutput],
    ["ended", call.ended],
  ].filter(([, time]) => time != null);
  return steps.sort((a, b) => a[1] - b[1]);
}

const since = (time, call, hasTimes) => (hasTimes ? `+${durationText((time - call.announced) * 1000)}` : `line ${Math.round(time)}`);

export function TimingLine({ call, hasTimes }) {
  return html`<ol class="timing" aria-label="Timing">
    ${stepsOf(call).map(([name, time]) => html`<li>${name} <span class="dim">${since(time, call, hasTimes)}</span></li>`)}
    ${call.ended == null && html`<li class=${call.findings.length ? "bad" : "busy"}>has not ended</li>`}
  </ol>`;
}

export function TimingTable({ call, hasTimes }) {
  const steps = stepsOf(call);
  const [begin, end] = [steps[0][1], steps.at(-1)[1]];
  const width = end - begin || 1;
  const share = (time) => `${(time / width) * 100}%`;
  const spans = steps.slice(0, -1).map(([name, from], n) => ({ name, next: steps[n + 1][0], from, to: steps[n + 1][1] }));
  return html`<div>
    <table class="phases">
      <thead><tr><th>from</th><th>to</th><th class="right">${hasTimes ? "took" : "lines"}</th><th>share</th></tr></thead>
      <tbody>
        ${spans.map(({ name, next, from, to }) => html`<tr>
          <td>${name}</td><td>${next}</td>
          <td class="right">${hasTimes ? durationText((to - from) * 1000) : Math.round(to - from)}</td>
          <td class="share"><span style=${{ marginLeft: share(from - begin), width: share(to - from) }}></span></td>
        </tr>`)}
      </tbody>
    </table>
    <p>${call.ended == null ? html`<b class="bad">It has not ended.</b>` : hasTimes ? `${durationText(width * 1000)} in all.` : ""}
      ${!hasTimes && html` <span class="dim">This recording has no times: the order is true, and lengths are not known.</span>`}</p>
    <${Usage} usage=${call.usage} />
  </div>`;
}

function Usage({ usage }) {
  if (!usage || !Object.keys(usage).length) return null;
  const parts = [
    num(usage.cpuMs) != null && `${durationText(usage.cpuMs)} of processor time`,
    num(usage.maxRssKb) != null && `${Math.round(usage.maxRssKb / 1000).toLocaleString("en")} MB of memory`,
  ].filter(Boolean);
  return html`<p>It took ${parts.join(" and ") || oneLine(usage, 300)}.</p>`;
}
