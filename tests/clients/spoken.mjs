// What the clients on the TypeScript SDK share: an agent as a child, and what was seen of it.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { isDeepStrictEqual } from "node:util";

export const spec = JSON.parse(readFileSync(0, "utf8"));

/** Everything that goes to Python at the end. */
export const seen = {
  lines: [], sent: [], lost: [], calls: {}, terminals: {}, messages: {}, permissions: [], scenes: [],
};

/** Start the agent, and give the SDK's stream to it; its lines and messages are kept on the way. */
export function startAgent(ndJsonStream) {
  const [program, ...rest] = spec.command;
  const child = spawn(program, rest, { cwd: spec.cwd, stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.on("exit", (code, signal) => resolve(signal ?? code)));
  const { readable, writable } = ndJsonStream(
    Writable.toWeb(child.stdin),
    Readable.toWeb(child.stdout).pipeThrough(keepingLines()),
  );
  setTimeout(finish, 1000 * spec.patience).unref();
  const outgoing = keepingSent();
  outgoing.readable.pipeTo(writable).catch(() => {}); // the agent is gone, which its exit tells
  const stream = { readable: readable.pipeThrough(keepingMessages()), writable: outgoing.writable };
  return { stream, child, exited };
}

function keepingLines() {
  const decoder = new TextDecoder();
  let rest = "";
  return new TransformStream({
    transform(chunk, controller) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop();
      seen.lines.push(...lines);
      controller.enqueue(chunk);
    },
  });
}

function keepingSent() {
  return new TransformStream({
    transform(message, controller) {
      seen.sent.push(structuredClone(message));
      controller.enqueue(message);
    },
  });
}

const raw = { "session/update": [], "session/request_permission": [] };

function keepingMessages() {
  return new TransformStream({
    transform(message, controller) {
      raw[message.method]?.push(structuredClone(message.params));
      controller.enqueue(message);
    },
  });
}

/** Note what the SDK's schemas have dropped or changed in the params of a message that it handed over. */
export function compare(method, params) {
  const sent = raw[method].shift();
  seen.lost.push(...lost(sent, params, method));
}

/** Give the paths at which `sent` says something that `parsed` doesn't. */
export function lost(sent, parsed, path) {
  if (sent === null || typeof sent !== "object") {
    return isDeepStrictEqual(sent, parsed) ? [] : [`${path}: ${JSON.stringify(sent)}`];
  }
  if (parsed === null || typeof parsed !== "object") return [`${path}: all of it`];
  return Object.keys(sent).flatMap((key) => lost(sent[key], parsed[key], `${path}.${key}`));
}

/** Put together what was said and planned. */
export function hear({ sessionUpdate: kind, messageId, content, entries, plan }) {
  if (kind === "plan" || kind === "plan_update") seen.plan = entries ?? plan.entries;
  if (kind === "user_message") seen.messages[messageId] = { kind: "user", text: content.map((one) => one.text).join("") };
  if (!kind.endsWith("_chunk") || !content?.text || !messageId) return;
  const message = (seen.messages[messageId] ??= { kind: kind.split("_")[0], text: "" });
  message.text += content.text;
}

/** The scene that is played now, and what is to be answered and cancelled in it. */
let scene;

export function begin(one) {
  scene = { ...one, cancelled: false };
}

/** Answer a question as the scene says; or cancel the turn, and wait until the question is withdrawn. */
export async function answer(request, toolCall, signal, cancel) {
  const known = structuredClone(seen.calls[toolCall.toolCallId] ?? null);
  seen.permissions.push({ scene: scene.name, toolCall, options: request.options, known });
  if (scene.answer === "cancel") {
    const withdrawn = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await cancel();
    await withdrawn;
    return { outcome: { outcome: "cancelled" } };
  }
  const option = request.options.find((one) => one.kind === (scene.answer ?? "allow_once"));
  return { outcome: { outcome: "selected", optionId: option.optionId } };
}

/** What the scene wants to be cancelled (the turn, the call) or closed, now that its call runs; once. */
export function isToCancel(update) {
  const due = scene?.cancel && !scene.cancelled && update.status === "in_progress";
  if (due) scene.cancelled = true;
  return due ? scene.cancel : null;
}

/** Say what was seen, and end, whatever is still open. */
export function finish() {
  process.stdout.write(JSON.stringify(seen) + "\n", () => process.exit());
}
