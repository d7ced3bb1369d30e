// Where the page begins. With data in it, it is the single page of `callsheet view -o`; else the inspector of `callsheet ui`.
import { html, render } from "htm/preact";
import * as api from "./api.js";
import { Boundary } from "./boundary.js";
import { Help, pressed } from "./keys.js";
import * as live from "./live.js";
import { restore } from "./route.js";
import { SessionView } from "./session.js";
import { Shell } from "./shell.js";
import * as s from "./store.js";

function App() {
  return html`${s.isServed.value ? html`<${Shell} />` : html`<${Boundary}><${SessionView} /><//>`}
    <${Help} />
    <p class="toast" role="status" aria-live="polite">${s.notice.value}</p>`;
}

async function unpacked(element) {
  const packed = Uint8Array.from(atob(element.textContent.trim()), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const data = document.getElementById("data");
s.isServed.value = !data;
if (s.isServed.value) api.takeToken();
restore();
addEventListener("hashchange", () => {
  if (s.isServed.value) api.takeToken();
  restore();
});
addEventListener("keydown", pressed);
// The first calls are asked for before anything is drawn.
if (s.isServed.value && s.view.value === "calls") live.restart();
render(html`<${App} />`, document.getElementById("app"));

if (data) {
  unpacked(data).then(s.show, (error) => (s.problem.value = `The data of this page can't be read: ${error.message}`));
} else {
  live.watch();
  s.loadFilters();
  api.listen((state) => (s.state.value = state), (link) => (s.link.value = link));
}
