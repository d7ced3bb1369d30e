// The timeline: a bar for each call, in lanes by session and sub-agent. Idle time is cut short, and shown as a break.
import { html } from "htm/preact";
import { useMemo, useRef, useLayoutEffect, useState } from "preact/hooks";
import { oneLine, durationText, statusClass, statusWord } from "./format.js";
import { shortTitle } from "./model.js";
import { choose } from "./route.js";
import { axisLabels, laneGroups, scaleOf, ticksOf } from "./scale.js";
import { Scrubber } from "./scrubber.js";
import * as s from "./store.js";

const LANE = 16;
const HEAD = 18; // the axis
const LABEL = 14; // a group's name
const LETTER = 6.2; // the width of a letter, about

// What part of the time is seen: from 0 to 1.
const FIT = [0, 1];
const zoomed = ([from, to], factor, centre = (from + to) / 2) => {
  const width = Math.min(1, Math.max(0.0005, (to - from) * factor));
  const left = Math.min(1 - width, Math.max(0, centre - ((centre - from) / (to - from)) * width));
  return [left, left + width];
};
const panned = ([from, to], by) => {
  const step = Math.min(1 - to, Math.max(-from, by));
  return [from + step, to + step];
};
// Set by the timeline that is drawn, for the keys + - and 0.
export const zoomBy = { current: null };

export function Timeline() {
  const { calls, turns, hasTimes, epoch } = s.trace.value;
  const until = s.isServed.value && epoch != null ? Date.now() / 1000 - epoch : 0;
  const scale = useMemo(() => scaleOf(s.trace.value, until), [s.trace.value]);
  const groups = useMemo(() => laneGroups(calls, s.trace.value.sessions), [s.trace.value]);
  const [part, setPart] = useState(FIT);
  const [width, setWidth] = useState(1000);
  const box = useRef(null);
  const drag = useRef(null);
  useLayoutEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(() => setWidth(box.current.clientWidth || 1000));
    watch.observe(box.current);
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        setPart((old) => panned(old, (event.deltaX / box.current.clientWidth) * (old[1] - old[0])));
      } else if (event.ctrlKey || event.metaKey || box.current.scrollHeight <= box.current.clientHeight + 1) {
        const x = (event.clientX - box.current.getBoundingClientRect().left) / box.current.clientWidth;
        setPart((old) => zoomed(old, event.deltaY > 0 ? 1.2 : 1 / 1.2, old[0] + x * (old[1] - old[0])));
      } else return;
      event.preventDefault();
    };
    box.current.addEventListener("wheel", wheel, { passive: false });
    return () => (watch.disconnect(), box.current?.removeEventListener("wheel", wheel));
  }, [calls.length > 0]);
  zoomBy.current = (factor) => setPart((old) => (factor ? zoomed(old, factor) : FIT));
  if (!calls.length) return null;

  const x = (time) => ((scale.at(time) - part[0]) / (part[1] - part[0])) * width;
  const now = s.moment.value;
  const listed = new Set(s.found.value.calls.map((call) => call.key));
  const statuses = new Map(s.found.value.calls.map((call) => [call.key, call.status]));
  let y = HEAD;
  const placed = groups.map((group) => {
    const mine = { ...group, y, top: y + (group.label ? LABEL : 0) };
    y = mine.top + group.lanes * LANE + 2;
    return mine;
  });
  const height = y + 2;
  const press = (event) => {
    drag.current = { x: event.clientX, part, moved: false };
    event.currentTarget.setPointerCapture?.(event.pointerId);
  };
  const move = (event) => {
    const from = drag.current;
    if (!from || !event.buttons) return;
    const by = ((from.x - event.clientX) / width) * (from.part[1] - from.part[0]);
    if (Math.abs(from.x - event.clientX) > 3) from.moved = true;
    if (from.moved) setPart(panned(from.part, by));
  };
  const release = (event) => {
    const clicked = drag.current && !drag.current.moved && document.elementFromPoint(event.clientX, event.clientY);
    const key = clicked?.closest?.(".bar")?.dataset.key;
    drag.current = null;
    if (key) choose(key);
  };
  const isWhole = part[0] === 0 && part[1] === 1;
  return html`<section class="timeline" aria-label="Timeline">
    <div class="lanes" ref=${box}>
      <svg
        width=${width} height=${height} role="img" class=${isWhole ? "" : "zoomed"}
        onPointerDown=${press} onPointerMove=${move} onPointerUp=${release}
        aria-label=${`${calls.length} calls${hasTimes ? ` over ${durationText((scale.end - scale.begin) * 1000)}` : ""}`}
      >
        <${Axis} scale=${scale} part=${part} width=${width} height=${height} hasTimes=${hasTimes} />
        ${turns.map((turn, n) => html`<${Turn} key=${n} turn=${turn} n=${n} x=${x} end=${scale.end} height=${height} />`)}
        ${scale.breaks.map((gap) => html`<${Break} gap=${gap} x=${x} height=${height} hasTimes=${hasTimes} />`)}
        ${placed.map((group) => html`<${Group} key=${group.key} group=${group} x=${x} width=${width} end=${scale.end} now=${now}
          listed=${listed} statuses=${statuses} />`)}
        ${now != null && html`<line class="now" x1=${x(now)} x2=${x(now)} y1="0" y2=${height} />`}
      </svg>
    </div>
    <div class="controls">
      <${Scrubber} scale=${scale} />
      <span class="zoom" role="group" aria-label="Zoom">
        <button aria-label="Zoom out" title="Zoom out (-)" onClick=${() => zoomBy.current(1.6)}>−</button>
        <button aria-label="Zoom in" title="Zoom in (+)" onClick=${() => zoomBy.current(1 / 1.6)}>+</button>
        <button title="Show all of it (0)" disabled=${isWhole} onClick=${() => zoomBy.current(0)}>Fit</button>
      </span>
    </div>
  </section>`;
}

function Axis({ scale, part, width, height, hasTimes }) {
  const times = ticksOf(scale, part, width, hasTimes);
  return axisLabels(times, scale.begin, hasTimes).map((label, n) => {
    const left = ((scale.at(times[n]) - part[0]) / (part[1] - part[0])) * width;
    return html`<g key=${n}>
      <line class="tick" x1=${left} x2=${left} y1="0" y2=${height} />
      <text class="when" x=${left + 4} y="12">${label}</text>
    </g>`;
  });
}

function Turn({ turn, n, x, end, height }) {
  const [from, to] = [x(turn.begun), x(turn.ended ?? end)];
  return html`<rect class=${`turn ${n % 2 ? "odd" : ""}`} x=${from} width=${Math.max(1, to - from)} y=${HEAD - 2} height=${height}>
    <title>${oneLine(turn.prompt, 200)}</title></rect>`;
}

function Break({ gap, x, height, hasTimes }) {
  const [from, to] = [x(gap.from), x(gap.to)];
  const label = hasTimes ? `${durationText((gap.to - gap.from) * 1000)} in which nothing happened` : "nothing happened";
  return html`<g class="break"><rect x=${from} width=${Math.max(2, to - from)} y=${HEAD - 2} height=${height}><title>${label}</title></rect>
    ${to - from > 10 && html`<text x=${(from + to) / 2} y=${HEAD + 11} text-anchor="middle">≈</text>`}</g>`;
}

function Group({ group, x, width, end, now, listed, statuses }) {
  const bars = group.calls.filter(({ call }) => now == null || call.announced <= now);
  return html`<g>
    ${group.label && html`<text class="group" x=${4 + group.depth * 10} y=${group.y + 11}>${oneLine(group.label, 80).replaceAll("`", "")}</text>`}
    ${bars.map(({ call, lane }) => {
      const from = x(call.announced);
      const ended = call.ended != null && (now == null || call.ended <= now);
      const to = x(ended ? call.ended : now == null ? end : now);
      if (to < -20 || from > width + 20) return null;
      const left = Math.max(-10, from);
      const wide = Math.max(3, Math.min(width + 10, to) - left);
      const title = oneLine(shortTitle(call, s.trace.value), 120).replaceAll("`", "");
      const status = statuses.get(call.key) ?? call.status;
      const letters = Math.floor((wide - 8) / LETTER);
      const names = ["bar", statusClass(status), call.key === s.chosen.value && "on", !listed.has(call.key) && "off"].filter(Boolean).join(" ");
      return html`<g key=${call.key}>
        <rect class=${names} data-key=${call.key} x=${left} width=${wide} y=${group.top + lane * LANE} height=${LANE - 3} rx="3">
          <title>${`${title} · ${statusWord(status)}`}</title></rect>
        ${letters > 5 && html`<text class="label" x=${Math.max(2, left) + 4} y=${group.top + lane * LANE + 10}>
          ${title.length > letters ? `${title.slice(0, letters - 1)}…` : title}</text>`}
      </g>`;
    })}
  </g>`;
}
