// The messages on the wire about a call.
import { html } from "htm/preact";
import { bytes, oneLine, plural, durationText, str } from "./format.js";
import { Tree } from "./tree.js";

export function Frames({ call, title, hasTimes = true }) {
  return html`<section class="frames">
    <h3>${title} <span class="dim">${plural(call.updates || call.frames.length, "update")}, ${bytes(call.size)}</span></h3>
    ${call.frames.map((frame) => html`<${Frame} key=${frame.line} frame=${frame} since=${hasTimes && frame.time !== frame.line ? frame.time - call.announced : null} />`)}
    ${!call.frames.length && html`<p class="dim">None.</p>`}
    ${call.leftOut > 0 &&
    html`<p class="dim">${plural(call.leftOut, "frame")} in the middle ${call.leftOut === 1 ? "is" : "are"} not shown.</p>`}
  </section>`;
}

function Frame({ frame, since }) {
  return html`<details class="frame">
    <summary>
      <span class="no dim" title=${`line ${frame.line}`}>${frame.line}</span>
      ${frame.sender === "client" && html`<span class="from-client">client</span>`}
      <span class="what">${summary(frame.message)}</span>
      <span class="dim">${since != null && `+${durationText(since * 1000)}`}</span>
    </summary>
    <${Tree} value=${frame.message} />
  </details>`;
}

function summary(message) {
  const update = message?.params?.update;
  if (update) return [update.sessionUpdate, update.status].filter(Boolean).map((text) => oneLine(text, 60)).join(" · ");
  if (message?.method) return oneLine(message.method, 80);
  const outcome = message?.result?.outcome;
  if (outcome) return oneLine(`answer · ${str(outcome.optionId ?? outcome.outcome)}`, 80);
  return message?.error ? "error" : message?.result ? "answer" : "message";
}
