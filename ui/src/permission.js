// Who or what answered a request for permission, in words.
import { html } from "htm/preact";
import { oneLine, durationText } from "./format.js";
import { Mark } from "./icons.js";
import { permissionOf } from "./model.js";

const BY = { __proto__: null, user: "a person", mode: "the mode", remembered: "a remembered answer", settings: "the settings" };
const SHORT = { __proto__: null, user: "person", mode: "mode", remembered: "remembered", settings: "settings" };
// Which status an answer is drawn as. Notes say that a call was denied, and clients that a question was rejected.
const STATUS = { __proto__: null, allowed: "completed", denied: "failed", rejected: "failed", cancelled: "cancelled" };

// For a column: `✓ person 2.1 s`.
export function PermissionCell({ call }) {
  const found = permissionOf(call);
  if (!found) return null;
  const status = STATUS[found.outcome] ?? "waiting";
  return html`<span class=${`asked ${status}`} title=${permissionText(call)}>
    <${Mark} status=${status} label=${oneLine(found.outcome || "waits", 40)} />${" "}
    ${SHORT[found.by] ?? oneLine(found.outcome || "waits", 40)}${found.waitedMs != null && ` ${durationText(found.waitedMs)}`}
  </span>`;
}

// For a sentence: `allowed by a person (Allow once), after 2.1 s, for git *`.
export function permissionText(call) {
  const found = permissionOf(call);
  if (!found) return "";
  if (!found.outcome) return "waits for an answer";
  return [
    oneLine(found.outcome, 40),
    found.by && ` by ${BY[found.by] ?? oneLine(found.by, 40)}`,
    found.option && ` (${oneLine(found.option, 80)})`,
    found.waitedMs != null && `, after ${durationText(found.waitedMs)}`,
    found.scope && `, for ${oneLine(found.scope, 120)}`,
  ].filter(Boolean).join("");
}
