// The filter's field, with suggestions, saved filters and export.
import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { NAMES } from "./filter.js";
import { setQuery } from "./route.js";
import * as s from "./store.js";

const EXAMPLE = 'Filter: tool:bash status:failed dur>2s path:src/ text:"timed out"';

/* Args:
     count, total: how many calls are listed, of how many
     wrong: what of the filter was not understood
     onExport: saves the calls that are listed
     children: more controls */
export function FilterBar({ count, total, wrong, onExport, children }) {
  return html`<form class="filter" role="search" onSubmit=${(event) => event.preventDefault()}>
    <div class="field">
      <input
        id="search" type="search" aria-label="Filter calls" placeholder=${EXAMPLE} value=${s.query.value} list="terms" autocomplete="off"
        spellcheck="false" aria-invalid=${wrong.length > 0} onInput=${(event) => setQuery(event.target.value)}
      />
      <datalist id="terms">${NAMES.map((name) => html`<option value=${name} />`)}</datalist>
      <kbd class="hint" aria-hidden="true">/</kbd>
    </div>
    <output aria-live="polite">${counted(count, total)}</output>
    ${s.isServed.value && html`<${Saved} />`}
    <button type="button" onClick=${onExport} title="Save the calls that are listed, as JSON lines">Export filtered</button>
    ${children}
    ${wrong.length > 0 && html`<ul class="wrong bad" role="alert">${wrong.map((text) => html`<li>${text}</li>`)}</ul>`}
  </form>`;
}

function counted(count, total) {
  if (count == null) return "…";
  return total == null ? count.toLocaleString("en") : `${count.toLocaleString("en")} of ${total.toLocaleString("en")}`;
}

// Saved filters, in a menu.
function Saved() {
  const [open, show] = useState(false);
  const [name, setName] = useState("");
  const box = useRef(null);
  useEffect(() => {
    if (!open) return;
    const away = (event) => !box.current?.contains(event.target) && show(false);
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, [open]);
  const list = s.filters.value;
  const remove = (gone) => s.saveFilters(list.filter((one) => one !== gone));
  const save = () => {
    const called = name.trim() || s.query.value.trim();
    s.saveFilters([...list.filter((one) => one.name !== called), { name: called, filter: s.query.value.trim() }]);
    setName("");
  };
  return html`<div class="menu" ref=${box} onKeyDown=${(event) => event.key === "Escape" && (event.stopPropagation(), show(false))}>
    <button type="button" aria-expanded=${open} aria-haspopup="true" onClick=${() => show(!open)}>
      Saved${list.length > 0 && ` (${list.length})`} ▾</button>
    ${open && html`<div class="popup" role="group" aria-label="Saved filters">
      ${list.map((one) => html`<div class="saved" key=${one.name}>
        <button type="button" class="pick" onClick=${() => (setQuery(one.filter), show(false))}>
          <b>${one.name}</b>${one.name !== one.filter && html`<code>${one.filter}</code>`}</button>
        <button type="button" aria-label=${`Remove ${one.name}`} onClick=${() => remove(one)}>×</button>
      </div>`)}
      ${!list.length && html`<p class="dim">No filter is saved.</p>`}
      ${s.query.value.trim() && html`<div class="save">
        <input aria-label="Name of the filter" placeholder="Name" value=${name} onInput=${(event) => setName(event.target.value)}
          onKeyDown=${(event) => event.key === "Enter" && (event.preventDefault(), save())} />
        <button type="button" onClick=${save}>Save this filter</button>
      </div>`}
    </div>`}
  </div>`;
}
