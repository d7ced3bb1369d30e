// A client on the official TypeScript SDK, ACP v1. It plays the scenes that it is given on stdin, and folds
// what it hears of tool calls. On stdout, at the end: all that it has seen, as one JSON object.

import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";
import { answer, begin, compare, finish, hear, isToCancel, lost, seen, spec, startAgent } from "./spoken.mjs";

const { stream, child, exited } = startAgent(ndJsonStream);
const asked = methods.client.session.requestPermission;
const updated = methods.client.session.update;

function fold(update) {
  const { sessionUpdate, toolCallId, ...fields } = update;
  if (sessionUpdate === "tool_call") seen.calls[toolCallId] = {};
  if (sessionUpdate !== "tool_call" && sessionUpdate !== "tool_call_update") return;
  const call = seen.calls[toolCallId];
  for (const [key, value] of Object.entries(fields)) {
    if (value != null) call[key] = key === "_meta" ? { ...call._meta, ...withoutTerminals(value) } : value;
  }
  foldTerminal(update._meta ?? {});
}

// What is news of a terminal is no part of the call.
function withoutTerminals({ terminal_info, terminal_output, terminal_exit, callsheet_terminal, ...meta }) {
  return meta;
}

// Zed's way to show an agent's terminals.
function foldTerminal({ terminal_info, terminal_output, terminal_exit }) {
  if (terminal_info) seen.terminals[terminal_info.terminal_id] = { bytes: [], ...terminal_info };
  if (terminal_output) {
    const { terminal_id, data } = terminal_output;
    seen.terminals[terminal_id].bytes.push(Buffer.from(data).toString("base64"));
  }
  if (terminal_exit) seen.terminals[terminal_exit.terminal_id].exit = terminal_exit;
}

let sessionId;
let closing;

const connection = client({ name: "callsheet-tests" })
  .onRequest(asked, ({ params, agent, signal }) => {
    compare(asked, params);
    const cancel = () => agent.notify(methods.agent.session.cancel, { sessionId: params.sessionId });
    return answer(params, params.toolCall, signal, cancel);
  })
  .onNotification(updated, ({ params, agent }) => {
    compare(updated, params);
    fold(params.update);
    hear(params.update);
    const cancel = isToCancel(params.update);
    if (cancel === "turn") return agent.notify(methods.agent.session.cancel, { sessionId });
    if (cancel === "session") closing = agent.request(methods.agent.session.close, { sessionId });
  })
  .connect(stream);

async function say(method, params) {
  const result = await connection.agent.request(method, params);
  const line = seen.lines.map((one) => JSON.parse(one)).findLast((one) => one.id != null && one.result);
  seen.lost.push(...lost(line.result, result, method));
  return result;
}

seen.initialized = await say(methods.agent.initialize, {
  protocolVersion: spec.offers ?? 1,
  clientInfo: { name: "callsheet-tests", version: "1" },
  clientCapabilities: spec.capabilities ?? {},
});
if (spec.load) {
  sessionId = spec.load;
  seen.session = await say(methods.agent.session.load, { sessionId, cwd: spec.cwd, mcpServers: [] });
} else {
  seen.session = await say(methods.agent.session.new, { cwd: spec.cwd, mcpServers: [] });
  ({ sessionId } = seen.session);
}
seen.told = seen.lines.length;
for (const scene of spec.scenes) {
  begin(scene);
  const prompt = [{ type: "text", text: scene.prompt }];
  const { stopReason } = await say(methods.agent.session.prompt, { sessionId, prompt });
  seen.scenes.push({ name: scene.name, stopReason, lines: seen.lines.length });
}
if (closing) await closing;
else {
  seen.listed = await say(methods.agent.session.list, {});
  await say(methods.agent.session.setMode, { sessionId, modeId: "read_only" });
  await say(methods.agent.session.close, { sessionId });
}
connection.close();
child.stdin.end();
seen.exit = await exited;
finish();
