// A list that draws only the rows that can be seen, so that a hundred thousand of them scroll as ten do.
import { html } from "htm/preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Boundary } from "./boundary.js";

export const ROW = 44;
const SPARE = 8; // rows drawn above and below what is seen

// Where a row is. `panel` is what stands open below one of the rows: `{after, height, node}`.
const topOf = (n, panel) => n * ROW + (panel && n > panel.after ? panel.height : 0);
const rowAt = (y, panel) => {
  if (!panel || y < (panel.after + 1) * ROW) return Math.floor(y / ROW);
  return Math.max(panel.after, Math.floor((y - panel.height) / ROW));
};

/* Args:
     id, label: the list's name in the document, and for screen readers
     count: how many rows there are
     row(n): draws a row; of(n): what is in it
     place: the row that is chosen, or -1
     follow: whether the newest row stays in sight; onFollow is told when the reader leaves or reaches the bottom
     onSeen(first, last): called with the rows that are drawn */
export function VirtualList({ id, label, count, row, of, place, panel, follow = false, onFollow, onSeen, empty }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const total = count * ROW + (panel?.height ?? 0);
  const first = Math.max(0, rowAt(top, panel) - SPARE);
  const last = Math.min(count, rowAt(top + height, panel) + SPARE + 1);

  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => setHeight(box.current.clientHeight));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    const list = box.current;
    if (follow) list.scrollTop = total;
    else if (list.scrollTop !== top) setTop(list.scrollTop);
  }, [follow, total, height]);
  useLayoutEffect(() => {
    const list = box.current;
    if (place < 0 || place >= count) return;
    const [from, to] = [topOf(place, panel), topOf(place, panel) + ROW];
    if (from < list.scrollTop) list.scrollTop = from;
    else if (to > list.scrollTop + list.clientHeight) list.scrollTop = to - list.clientHeight;
  }, [place]);
  useEffect(() => onSeen?.(first, last), [first, last, count]);

  const scrolled = (event) => {
    const list = event.currentTarget;
    setTop(list.scrollTop);
    onFollow?.(list.scrollTop + list.clientHeight >= list.scrollHeight - 4);
  };
  const drawn = [];
  for (let n = first; n < last; n++) {
    drawn.push(html`<div
      key=${n} id=${`${id}-${n}`} class="slot" role="option" aria-selected=${n === place}
      aria-setsize=${count} aria-posinset=${n + 1} style=${{ transform: `translateY(${topOf(n, panel)}px)` }}
    ><${Boundary} of=${of(n)}>${row(n)}<//></div>`);
  }
  return html`<div class="list" ref=${box} onScroll=${scrolled}>
    <div
      class="rows" id=${id} role="listbox" tabindex="0" aria-label=${label} style=${{ height: `${total}px` }}
      aria-activedescendant=${place >= first && place < last ? `${id}-${place}` : null}
    >${drawn}</div>
    ${panel && panel.after < count &&
    html`<div class="panel" role="region" aria-label="Frames" style=${{ top: `${(panel.after + 1) * ROW}px`, height: `${panel.height}px` }}>
      <${Boundary} of=${panel.after}>${panel.node}<//>
    </div>`}
    ${!count && html`<div class="empty">${empty}</div>`}
  </div>`;
}
