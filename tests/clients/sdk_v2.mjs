// A client on the official TypeScript SDK, the draft of ACP v2. It plays the scenes that it is given on stdin,
// and folds what it hears of tool calls and terminals. On stdout, at the end: all that it has seen, as one JSON object.

import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk/experimental/v2";
import { answer, begin, compare, finish, hear, isToCancel, seen, spec, startAgent } from "./spoken.mjs";

const { stream, child, exited } = startAgent(ndJsonStream);
const asked = methods.client.session.requestPermission;
const updated = methods.client.session.update;

function patch(state, fields) {
  for (const [key, value] of Object.entries(fields)) {
    if (value === null) delete state[key];
    else state[key] = key === "_meta" ? { ...state._meta, ...value } : value;
  }
}

const FOLD = {
  tool_call_update: ({ toolCallId, ...fields }) => patch((seen.calls[toolCallId] ??= {}), fields),
  tool_call_content_chunk: ({ toolCallId, content }) =>
    (seen.calls[toolCallId].content ??= []).push(content),
  terminal_update: ({ terminalId, output, ...fields }) => {
    const terminal = (seen.terminals[terminalId] ??= { bytes: [] });
    if (output !== undefined) terminal.bytes = output ? [output.data] : [];
    patch(terminal, fields);
  },
  terminal_output_chunk: ({ terminalId, data }) =>
    (seen.terminals[terminalId] ??= { bytes: [] }).bytes.push(data),
  state_update: ({ state, stopReason }) => (seen.states ??= []).push(stopReason ? [state, stopReason] : [state]),
};

const connection = client({ name: "callsheet-tests" })
  .onRequest(asked, ({ params, agent, signal }) => {
    compare(asked, params);
    const cancel = () => agent.notify(methods.agent.session.cancel, { sessionId: params.sessionId });
    return answer(params, params.subject.toolCall, signal, cancel);
  })
  .onNotification(updated, ({ params }) => {
    compare(updated, params);
    const { sessionUpdate, ...rest } = params.update;
    FOLD[sessionUpdate]?.(rest);
    hear(params.update);
  })
  .connect(stream);

seen.initialized = await connection.agent.request(methods.agent.initialize, {
  protocolVersion: 2,
  info: { name: "callsheet-tests", version: "1" },
  capabilities: {},
});
let session;
if (spec.load) {
  const resumed = { sessionId: spec.load, cwd: spec.cwd, replayFrom: { type: "start" } };
  seen.session = await connection.agent.request(methods.agent.session.resume, resumed);
  session = { sessionId: spec.load };
} else {
  session = await connection.agent.buildSession(spec.cwd).start();
  seen.session = session.newSessionResponse;
}
seen.told = seen.lines.length;
let closing;

for (const scene of spec.scenes) {
  begin(scene);
  const { messageId } = await session.prompt(scene.prompt);
  const { stopReason } = await played();
  seen.scenes.push({ name: scene.name, stopReason, messageId, lines: seen.lines.length });
}

async function played() {
  for (;;) {
    const message = await session.nextUpdate();
    if (message.kind === "stop") return message;
    const cancel = isToCancel(message.update);
    if (cancel === "turn") {
      await connection.agent.notify(methods.agent.session.cancel, { sessionId: session.sessionId });
    } else if (cancel === "call") {
      await session.cancelToolCall(message.update.toolCallId);
    } else if (cancel === "session") {
      closing = connection.agent.request(methods.agent.session.close, { sessionId: session.sessionId });
    }
  }
}

if (closing) await closing;
else {
  const { sessionId } = session;
  seen.listed = await connection.agent.request(methods.agent.session.list, {});
  const chosen = { sessionId, configId: "permission", type: "id", value: "read_only" };
  seen.options = await connection.agent.request(methods.agent.session.setConfigOption, chosen);
  await connection.agent.request(methods.agent.session.close, { sessionId });
}
connection.close();
child.stdin.end();
seen.exit = await exited;
finish();
