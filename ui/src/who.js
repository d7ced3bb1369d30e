// Who made calls: the person and the machine, the agent and the client, and how the calls came into the history.

export const SOURCES = {
  __proto__: null,
  agent: "by its own report", tap: "through the tap", call: "by callsheet call", adapter: "by an adapter", import: "imported",
};

// Who made a call of a trace: somebody else may go on with a session.
export const whoOf = (call, trace) => call.who ?? trace?.who ?? {};

// An agent's name without the scope of its package.
export const agentName = (who) => who.agent.replace(/^@[^/\s]+\//, "");

const joined = (between, ...parts) => parts.filter(Boolean).join(between);

// All of it in a line, as `Origin.text` has it; empty if nothing is known.
export const whoText = (who) =>
  joined(", ", joined(" on ", who.user, who.host), joined(" in ", who.agent, who.client), SOURCES[who.source] ?? who.source);
