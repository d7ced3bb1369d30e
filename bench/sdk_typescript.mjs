// The official TypeScript SDK's side of one call's life.
//
// A real agent connection on newline-delimited JSON. Its output is a stream that drops its bytes, or
// with `pipe` this process's stdout, as an agent has it; its input stays silent. Each of the three
// notifications is awaited, as an agent does.
//
// On stdin: the three updates, and how long to run. On stdout (with `pipe`, on stderr): the lines of
// one life, and microseconds per life for each round: time, or with `pipe` CPU time.

import { readFileSync } from "node:fs";
import { Writable } from "node:stream";
import { agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const { sessionId, updates, rounds, seconds, pipe } = JSON.parse(readFileSync(0, "utf8"));
const [announced, running, done] = updates;
const METHOD = methods.client.session.update;

let lives = 0;

function dropping(written) {
  const decoder = new TextDecoder();
  return new WritableStream({
    write(chunk) {
      written?.push(decoder.decode(chunk));
    },
  });
}

function connect(output) {
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

function secondsNow() {
  if (!pipe) return performance.now() / 1000;
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

async function batch(client, times) {
  const start = secondsNow();
  for (let i = 0; i < times; i++) await live(client);
  return secondsNow() - start;
}

async function batchSize(client) {
  let times = 1;
  let took;
  while ((took = await batch(client, times)) < seconds / 2) times *= 2;
  return Math.max(1, Math.round((times * seconds) / took));
}

const lines = [];
const first = connect(dropping(lines));
await live(first.client);
first.close();

const connection = connect(pipe ? Writable.toWeb(process.stdout) : dropping(null));
await batch(connection.client, await batchSize(connection.client)); // let the JIT settle
const size = await batchSize(connection.client);
const micros = [];
for (let i = 0; i < rounds; i++) {
  micros.push(((await batch(connection.client, size)) / size) * 1e6);
}
connection.close();
(pipe ? console.error : console.log)(JSON.stringify({ lines, micros }));
