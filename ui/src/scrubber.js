// The scrubber: replays a session to a moment, by hand or by itself.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { durationText } from "./format.js";
import * as s from "./store.js";

const STEPS = 1000;
const SECONDS = 12; // that a replay takes, however long the session was

export function Scrubber({ scale }) {
  const [plays, play] = useState(false);
  const now = s.moment.value;
  const place = now == null ? STEPS : Math.round(scale.at(now) * STEPS);
  const set = (step) => (s.moment.value = step >= STEPS ? null : scale.back(step / STEPS));
  useEffect(() => {
    if (!plays) return;
    let step = s.moment.value == null ? 0 : scale.at(s.moment.value) * STEPS;
    const timer = setInterval(() => {
      step += STEPS / SECONDS / 20;
      set(step);
      if (step >= STEPS) play(false);
    }, 50);
    return () => clearInterval(timer);
  }, [plays]);
  const where = now == null ? "end" : s.trace.value.hasTimes ? `+${durationText((now - scale.begin) * 1000)}` : `line ${Math.round(now)}`;
  return html`<div class="scrubber">
    <button aria-label=${plays ? "Pause the replay" : "Replay the session"} aria-pressed=${plays} onClick=${() => play(!plays)}>
      ${plays ? "❚❚" : "▶"}</button>
    <input
      type="range" min="0" max=${STEPS} step="1" value=${place} aria-label="Replay to a moment" aria-valuetext=${where}
      onInput=${(event) => (play(false), set(+event.target.value))}
    />
    <output class="dim">${where}</output>
  </div>`;
}
