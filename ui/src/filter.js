// The filter language: `tool:bash status:failed dur>2s path:src/ text:"timeout"`. Words without a name are looked for
// in titles. A minus sign before a term turns it around. What can't be understood is named, and looked for as text.
const TERM = /(-?)(?:(\w+)([:<>]))?("(?:[^"\\]|\\.)*"|\S+)/g;
const UNITS = { ms: 1e-3, s: 1, m: 60, min: 60, h: 3600, "": 1, b: 1, kb: 1e3, mb: 1e6, gb: 1e9 };

const has = (where, what) => String(where ?? "").toLowerCase().includes(what.toLowerCase());
const everything = (call) => JSON.stringify([call.title, call.input, call.output, call.content]);

const FIELDS = {
  tool: (call, v) => has(call.name, v) || has(call.title, v),
  status: (call, v) => has(call.status, v) || has(call.reason, v),
  kind: (call, v) => (call.kind || "other") === v,
  path: (call, v) => call.locations.some((one) => has(one.path, v)),
  text: (call, v) => has(everything(call), v),
  session: (call, v) => has(call.session, v),
  id: (call, v) => has(call.id, v),
  rule: (call, v) => call.findings.some((one) => has(one.rule, v)),
  is: (call, v) =>
    ({ open: call.ended == null, wrong: call.findings.length > 0, asked: call.approvals.length > 0, child: !!call.parent })[v],
};
const NUMBERS = {
  dur: (call) => (call.ended == null ? null : call.ended - (call.started ?? call.announced)),
  bytes: (call) => call.size,
  findings: (call) => call.findings.length,
  updates: (call) => call.updates,
};

export const NAMES = [...Object.keys(FIELDS).map((name) => `${name}:`), ...Object.keys(NUMBERS).map((name) => `${name}>`)];

export function matcher(text) {
  const tests = [];
  const wrong = [];
  for (const [whole, minus, name, sign, raw] of text.matchAll(TERM)) {
    const value = raw.startsWith('"') ? raw.slice(1, -1).replace(/\\(.)/g, "$1") : raw;
    let test;
    if (name && sign === ":" && FIELDS[name]) test = (call) => FIELDS[name](call, value);
    else if (name && sign !== ":" && NUMBERS[name]) {
      const [, digits, unit] = value.match(/^([\d.]+)([a-z]*)$/i) ?? [];
      const limit = Number(digits) * (UNITS[unit?.toLowerCase()] ?? NaN);
      if (Number.isNaN(limit)) wrong.push(whole);
      test = (call) => {
        const found = NUMBERS[name](call);
        return found != null && (sign === ">" ? found > limit : found < limit);
      };
    } else {
      if (name) wrong.push(whole);
      test = (call) => has(call.title, name ? whole : value);
    }
    tests.push(minus ? (call) => !test(call) : test);
  }
  return { test: (call) => tests.every((one) => one(call)), wrong };
}
