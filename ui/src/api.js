// What the page asks the server. The token comes in the fragment of the first address, and is sent only as a header.
const KEY = "callsheet-token";
const SILENCE = 40_000; // milliseconds after which a stream that says nothing is taken for lost
let token = "";

// Take the token out of the address, so that it is neither seen nor copied nor bookmarked.
export function takeToken() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (parts.has("token")) {
    sessionStorage.setItem(KEY, parts.get("token"));
    parts.delete("token");
    history.replaceState(null, "", `#${parts}`);
  }
  token = sessionStorage.getItem(KEY) ?? "";
}

class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(path, params = {}, options = {}) {
  const asked = new URLSearchParams(Object.entries(params).filter(([, value]) => value != null && value !== ""));
  const url = `/api/${path}${asked.size ? `?${asked}` : ""}`;
  const headers = { Authorization: `Bearer ${token}`, ...options.headers };
  const answer = await fetch(url, { ...options, headers, cache: "no-store", redirect: "error" });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new ApiError(answer.status, told.error ?? `the server answers ${answer.status}`);
}

export const get = async (path, params, signal) => (await request(path, params, { signal })).json();

export const put = async (path, value) => {
  const headers = { "Content-Type": "application/json" };
  return (await request(path, {}, { method: "PUT", headers, body: JSON.stringify(value) })).json().catch(() => null);
};

// Save what a request answers as a file. A plain link could not carry the token.
export async function download(path, params, name) {
  saveAs(await (await request(path, params)).blob(), name);
}

export function saveAs(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Follow the server's events for ever. `onLink` is told "live", "lost" (it tries again) or "refused" (it does not).
export async function listen(onState, onLink) {
  for (let failures = 0; ; failures++) {
    try {
      await follow((state) => {
        failures = 0;
        onLink("live");
        onState(state);
      });
    } catch (error) {
      if (error.status === 401 || error.status === 403) return onLink("refused");
    }
    onLink("lost");
    await new Promise((done) => setTimeout(done, Math.min(8000, 300 * 2 ** failures)));
  }
}

async function follow(onState) {
  const stop = new AbortController();
  let watch = setTimeout(() => stop.abort(), SILENCE);
  try {
    const answer = await request("events", {}, { signal: stop.signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(() => stop.abort(), SILENCE);
      const events = (rest + value).split(/\r?\n\r?\n/);
      rest = events.pop();
      for (const event of events) {
        const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
        if (data) onState(JSON.parse(data));
      }
    }
  } finally {
    clearTimeout(watch);
    stop.abort();
  }
}
