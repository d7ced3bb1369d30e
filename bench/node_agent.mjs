// The smallest agent on the official TypeScript SDK: it answers `initialize` and `session/new`.

import { Readable, Writable } from "node:stream";
import { agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";

agent({ name: "bench" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: 1,
    agentCapabilities: {},
    agentInfo: { name: "bench", title: "Bench", version: "1" },
  }))
  .onRequest(methods.agent.session.new, () => ({ sessionId: "sess_1" }))
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
