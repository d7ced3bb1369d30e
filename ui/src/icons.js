// Icons, drawn here so that they look the same with every font: of kinds of calls, of statuses, of what is said.
import { html } from "htm/preact";
import { oneLine, statusClass, statusWord } from "./format.js";

const CIRCLE = "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2z";
const THINK = "M8 1.8v3M8 11.2v3M1.8 8h3M11.2 8h3M3.6 3.6l2.1 2.1M10.3 10.3l2.1 2.1M12.4 3.6l-2.1 2.1M5.7 10.3l-2.1 2.1";

// The tables are asked with words of agents: without a prototype they have no more than what is written here.
const KINDS = {
  __proto__: null,
  read: "M3.8 1.8h5.4l3.2 3.2v9.2H3.8zM9 2v3.2h3.2M6 8.2h4.2M6 10.9h4.2",
  edit: "M10.6 2.6l2.8 2.8-7.8 7.8-3.4.6.6-3.4zM9 4.2L11.8 7",
  delete: "M2.6 4.4h10.8M6 4.2V2.4h4v1.8M4.2 4.4l.6 9.3h6.4l.6-9.3M6.8 7v4.2M9.2 7v4.2",
  move: "M2 8h11.4M9.4 4L13.4 8l-4 4",
  search: "M7 2.4a4.6 4.6 0 1 0 0 9.2 4.6 4.6 0 0 0 0-9.2zM10.4 10.4l3.4 3.4",
  execute: "M1.8 2.8h12.4v10.4H1.8zM4.6 5.8L6.8 8l-2.2 2.2M8.4 10.3h3.2",
  think: THINK,
  fetch: `${CIRCLE}M2.4 8h11.2M8 2.2c2 1.7 2.8 3.7 2.8 5.8s-.8 4.1-2.8 5.8M8 2.2C6 3.9 5.2 5.9 5.2 8s.8 4.1 2.8 5.8`,
  switch_mode: "M2.8 5h9.8M9.8 2.2L12.6 5 9.8 7.8M13.2 11H3.4M6.2 8.2L3.4 11l2.8 2.8",
};
const OTHER = "M8 1.8l5.4 3.1v6.2L8 14.2l-5.4-3.1V4.9zM8 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4z";
const STATUSES = {
  __proto__: null,
  pending: CIRCLE,
  in_progress: "M8 2.2a5.8 5.8 0 1 1-5.8 5.8",
  waiting: "M5.4 5.8a2.6 2.6 0 1 1 3.8 2.3C8.4 8.5 8 9 8 10.1M8 12.8v.3",
  paused: "M5.6 3.4v9.2M10.4 3.4v9.2",
  completed: "M2.8 8.6l3.4 3.4 7-7.6",
  failed: "M3.8 3.8l8.4 8.4M12.2 3.8l-8.4 8.4",
  cancelled: `${CIRCLE}M4 12l8-8`,
};
const SAID = {
  message: "M2.2 2.8h11.6v7.8H7.2l-3 2.8v-2.8h-2z",
  thought: THINK,
  prompt: "M8 2.2a2.7 2.7 0 1 0 0 5.4 2.7 2.7 0 0 0 0-5.4zM2.6 13.8c.4-3 2.5-4.4 5.4-4.4s5 1.4 5.4 4.4",
};

const Icon = ({ path }) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${path} /></svg>`;

export const KindIcon = ({ kind }) =>
  html`<span class="kind" title=${oneLine(kind, 60) || "no kind"}><${Icon} path=${KINDS[kind] ?? OTHER} /></span>`;

// A status, or what an answer to a question made of it. For screen readers it is a word.
export const Mark = ({ status, label = statusWord(status) }) =>
  html`<span class=${`mark ${statusClass(status)}`} role="img" aria-label=${label} title=${label}>
    <${Icon} path=${STATUSES[status] ?? CIRCLE} /></span>`;

export const SaidMark = ({ what }) => html`<span class="mark" role="img" aria-label=${what}><${Icon} path=${SAID[what] ?? SAID.message} /></span>`;

export const Brand = () => html`<${Icon} path="M3 1.6h10v12.8H3zM5.6 4.8h4.8M5.6 8h4.8M5.6 11.2h2.4" />`;

export const Chevron = ({ isOpen }) => html`<${Icon} path=${isOpen ? "M4 6l4 4 4-4" : "M6 4l4 4-4 4"} />`;
