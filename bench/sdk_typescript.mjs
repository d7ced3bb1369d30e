// The official TypeScript SDK's side of one call's life.
//
// A real agent connection on newline-delimited JSON. Its output is a stream that drops its bytes, its
// input stays silent. Each of the three notifications is awaited, as an agent does.
//
// On stdin: the three updates, and how long to run. On stdout: the lines of one life, and
// microseconds per life for each round.

import { readFileSync } from "node:fs";
import { agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const { sessionId, updates, rounds, seconds } = JSON.parse(readFileSync(0, "utf8"));
const [announced, running, done] = updates;
const METHOD = methods.client.session.update;

let written = null; // the lines, while they are wanted
let lives = 0;

function connect() {
  const decoder = new TextDecoder();
  const output = new WritableStream({
    write(chunk) {
      written?.push(decoder.decode(chunk));
    },
  });
  return agent({ name: "bench" }).connect(ndJsonStream(output, new ReadableStream()));
}

// The objects are built anew for each life, as an agent would. The texts are shared.
async function live(client) {
  const toolCallId = `call_${String(lives++).padStart(26, "0")}`;
  const { locations: [place], rawInput, _meta } = announced;
  await client.notify(METHOD, {
    sessionId,
    update: {
      sessionUpdate: "tool_call",
      toolCallId,
      title: announced.title,
      kind: announced.kind,
      status: announced.status,
      name: announced.name,
      locations: [{ path: place.path, line: place.line }],
      rawInput: { path: rawInput.path, limit: rawInput.limit },
      _meta: { tool_name: _meta.tool_name },
    },
  });
  await client.notify(METHOD, {
    sessionId,
    update: { sessionUpdate: "tool_call_update", toolCallId, status: running.status },
  });
  const { text } = done.content[0].content;
  await client.notify(METHOD, {
    sessionId,
    update: {
      sessionUpdate: "tool_call_update",
      toolCallId,
      status: done.status,
      content: [{ type: "content", content: { type: "text", text } }],
      rawOutput: { content: done.rawOutput.content },
    },
  });
}

async function batch(client, times) {
  const start = performance.now();
  for (let i = 0; i < times; i++) await live(client);
  return (performance.now() - start) / 1000;
}

async function batchSize(client) {
  let times = 1;
  let took;
  while ((took = await batch(client, times)) < seconds / 2) times *= 2;
  return Math.max(1, Math.round((times * seconds) / took));
}

const connection = connect();
written = [];
await live(connection.client);
const lines = written;
written = null;

await batch(connection.client, await batchSize(connection.client)); // let the JIT settle
const size = await batchSize(connection.client);
const micros = [];
for (let i = 0; i < rounds; i++) {
  micros.push(((await batch(connection.client, size)) / size) * 1e6);
}
connection.close();
console.log(JSON.stringify({ lines, micros }));
