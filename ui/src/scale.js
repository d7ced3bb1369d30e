// Where things are on the timeline: times to places from 0 to 1, and calls to lanes.
import { durationText } from "./format.js";

const BREAK = 0.018; // the share of the width that idle time gets

// A scale on which idle time is short, if there are times. `now` is until when calls run that have not ended, if they do.
export function scaleOf({ calls, turns, messages, hasTimes }, now = 0) {
  const busy = [
    ...calls.map((call) => [call.announced, call.ended ?? Math.max(call.announced, now)]),
    ...turns.flatMap((turn) => [[turn.begun, turn.begun], [turn.ended ?? turn.begun, turn.ended ?? turn.begun]]),
    ...messages.map((message) => [message.time, message.time]),
  ].sort((a, b) => a[0] - b[0]);
  if (!busy.length) return { begin: 0, end: 1, breaks: [], at: () => 0, back: () => 0 };

  const parts = []; // [from, to, is idle]
  let end = busy[0][0];
  for (const [from, to] of busy) {
    if (from > end) parts.push([end, from, true]), (end = from);
    if (to > end) parts.push([end, to, false]), (end = to);
  }
  const begin = busy[0][0];
  const active = parts.reduce((sum, [from, to, idle]) => sum + (idle ? 0 : to - from), 0) || (end - begin) / 10 || 1;
  const isBreak = ([from, to, idle]) => hasTimes && idle && to - from > Math.max(active / 20, 0.2);
  const breaks = parts.filter(isBreak).map(([from, to]) => ({ from, to }));
  const shown = parts.reduce((sum, part) => sum + (isBreak(part) ? 0 : part[1] - part[0]), 0);
  const share = breaks.length ? (shown ? Math.min(BREAK, 0.4 / breaks.length) : 1 / breaks.length) : 0;

  const points = [[begin, 0]];
  let place = 0;
  for (const part of parts) {
    place += isBreak(part) ? share : ((part[1] - part[0]) / shown) * (1 - share * breaks.length);
    points.push([part[1], place]);
  }
  if (points.length === 1) points.push([begin + 1, 1]);
  const at = (time) => between(points, time, 0, 1);
  return { begin, end, breaks, at, back: (x) => between(points, x, 1, 0) };
}

function between(points, value, a, b) {
  let [low, high] = [0, points.length - 1];
  if (value <= points[0][a]) return points[0][b];
  if (value >= points[high][a]) return points[high][b];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][a] < value) low = middle;
    else high = middle;
  }
  const [left, right] = [points[low], points[high]];
  return left[b] + ((value - left[a]) / (right[a] - left[a] || 1)) * (right[b] - left[b]);
}

const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];
const LABEL = 80; // the pixels that a label needs

// Round times for the axis, where there is room for them: in each part between breaks, at least where that begins.
export function ticksOf(scale, [from, to], width, hasTimes) {
  const [first, last] = [scale.back(from), scale.back(to)];
  const parts = [];
  let start = first;
  for (const gap of scale.breaks) {
    if (gap.to <= first || gap.from >= last) continue;
    if (gap.from > start) parts.push([start, gap.from]);
    start = gap.to;
  }
  if (start < last) parts.push([start, last]);
  const least = (parts.reduce((sum, [a, b]) => sum + b - a, 0) * LABEL * 1.4) / width;
  const digit = 10 ** Math.floor(Math.log10(least || 1));
  const round = [1, 2, 5, 10].find((one) => one * digit >= least) * digit;
  const step = !hasTimes ? Math.max(1, round) : round < 1 ? round : (SECONDS.find((one) => one >= least) ?? round);
  const place = (time) => ((scale.at(time) - from) / (to - from)) * width;
  const ticks = [];
  const add = (time) => place(time) <= width - LABEL / 2 && (!ticks.length || place(time) - place(ticks.at(-1)) >= LABEL) && ticks.push(time);
  for (const [a, b] of parts) {
    const n = Math.ceil((a - scale.begin) / step - 1e-9);
    if (scale.begin + n * step >= b) add(a);
    for (let k = n; scale.begin + k * step < b; k++) add(scale.begin + k * step);
  }
  return ticks;
}

// With more digits than one, what is longer than a minute is written as on a clock: `9:13:25.5`.
function timeLabel(ms, digits) {
  if (digits === 1 || ms < 59_950) return durationText(ms, digits);
  const seconds = (ms / 1000).toFixed(digits - 2);
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, (seconds % 60).toFixed(digits - 2)];
  const clock = `${hours ? `${hours}:${String(minutes).padStart(2, "0")}` : minutes}:`;
  return clock + (rest < 10 ? `0${rest}` : rest);
}

// The labels of times on the axis, with as many digits as make neighbours differ; one that still repeats is left out.
export function axisLabels(times, begin, hasTimes) {
  const isNew = (label, n, labels) => label !== labels[n - 1];
  let labels = [];
  for (const digits of [1, 2, 3]) {
    labels = times.map((time) => (hasTimes ? timeLabel((time - begin) * 1000, digits) : `line ${Math.round(time)}`));
    if (labels.every(isNew)) return labels;
  }
  return labels.map((label, n) => (isNew(label, n, labels) ? label : ""));
}

// Calls in groups: those of a session, and below them those of each sub-agent. Calls that overlap get lanes of their own.
export function laneGroups(calls, sessions) {
  const groups = new Map();
  const many = new Set(calls.map((call) => call.session)).size > 1;
  const byId = new Map(calls.map((call) => [`${call.session}\n${call.id}`, call]));
  const depthOf = (call, seen = 0) => {
    const parent = call.parent && byId.get(`${call.session}\n${call.parent}`);
    return parent && seen < 8 ? 1 + depthOf(parent, seen + 1) : 0;
  };
  for (const call of calls) {
    const parent = call.parent ?? "";
    const key = `${call.session}\n${parent}`;
    if (!groups.has(key)) {
      const above = byId.get(key);
      const label = parent ? `↳ ${above?.title || above?.name || parent}` : many ? (sessions?.[call.session] || call.session) : "";
      groups.set(key, { key, session: call.session, parent, label, depth: depthOf(call), order: call.announced, calls: [] });
    }
    groups.get(key).calls.push(call);
  }
  const sorted = [...groups.values()].sort(
    (a, b) => a.session.localeCompare(b.session) || (a.parent ? 1 : 0) - (b.parent ? 1 : 0) || a.order - b.order,
  );
  return sorted.map((group) => {
    const free = [];
    const placed = group.calls.map((call) => {
      let lane = free.findIndex((time) => time <= call.announced);
      if (lane < 0) lane = free.length < 30 ? free.length : free.indexOf(Math.min(...free));
      free[lane] = call.ended ?? Infinity;
      return { call, lane };
    });
    return { ...group, calls: placed, lanes: free.length };
  });
}
