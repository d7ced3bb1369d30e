// A list that draws only the rows that can be seen, so that a hundred thousand of them scroll as ten do.
import { html } from "htm/preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Boundary } from "./boundary.js";

const SPARE = 8; // rows drawn above and below what is seen
const TALLEST = 10_000_000; // pixels that every browser can draw; of a list that is taller, one stands for several

// Where a row is, of rows that are so high. `panel` is what stands open below one of them: `{after, height, node}`.
const topOf = (n, high, panel) => n * high + (panel && n > panel.after ? panel.height : 0);
const rowAt = (y, high, panel) => {
  if (!panel || y < (panel.after + 1) * high) return Math.floor(y / high);
  return Math.max(panel.after, Math.floor((y - panel.height) / high));
};

/* Args:
     id, label: the list's name in the document, and for screen readers
     count: how many rows there are
     rowHeight(width): how high each is, in pixels, where the list is so wide
     row(n): draws a row; of(n): what is in it
     place: the row that is chosen, or -1
     follow: whether the newest row stays in sight; onFollow is told when the reader leaves or reaches the bottom
     onSeen(first, last): called with the rows that are drawn */
export function VirtualList({ id, label, count, rowHeight, row, of, place, panel, follow = false, onFollow, onSeen, empty }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [{ height, high }, setSize] = useState({ height: 600, high: rowHeight(innerWidth) });
  const total = count * high + (panel?.height ?? 0);
  const ratio = total > TALLEST ? (total - height) / (TALLEST - height) : 1;
  const above = top * ratio; // what is above of what is seen
  const first = Math.max(0, rowAt(above, high, panel) - SPARE);
  const last = Math.min(count, rowAt(above + height, high, panel) + SPARE + 1);
  const placed = (n) => topOf(n, high, panel) - above + top;

  useLayoutEffect(() => {
    const measure = () => setSize({ height: box.current.clientHeight, high: rowHeight(box.current.offsetWidth) });
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    measure();
    return () => watch.disconnect();
  }, []);
  // When rows get another height, the chosen one, or the first that is seen, stays where it is.
  const before = useRef(high);
  useLayoutEffect(() => {
    const list = box.current;
    const [first, end] = [0, height].map((y) => rowAt(list.scrollTop * ratio + y, before.current, panel));
    const fixed = place >= first && place <= end ? place : first;
    list.scrollTop += (topOf(fixed, high, panel) - topOf(fixed, before.current, panel)) / ratio;
    before.current = high;
  }, [high]);
  useLayoutEffect(() => {
    const list = box.current;
    if (follow) list.scrollTop = total;
    else if (list.scrollTop !== top) setTop(list.scrollTop);
  }, [follow, total, height]);
  useLayoutEffect(() => {
    const list = box.current;
    if (place < 0 || place >= count) return;
    const [from, seen] = [topOf(place, high, panel), list.scrollTop * ratio];
    if (from < seen) list.scrollTop = from / ratio;
    else if (from + high > seen + list.clientHeight) list.scrollTop = (from + high - list.clientHeight) / ratio;
  }, [place, high]);
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
      aria-setsize=${count} aria-posinset=${n + 1} style=${{ transform: `translateY(${placed(n)}px)` }}
    ><${Boundary} of=${of(n)}>${row(n)}<//></div>`);
  }
  return html`<div class="list" ref=${box} onScroll=${scrolled} style=${{ "--row": `${high}px` }}>
    <div
      class="rows" id=${id} role="listbox" tabindex="0" aria-label=${label} style=${{ height: `${Math.min(total, TALLEST)}px` }}
      aria-activedescendant=${place >= first && place < last ? `${id}-${place}` : null}
    >${drawn}</div>
    ${panel && panel.after < count &&
    html`<div class="panel" role="region" aria-label="Frames" style=${{ top: `${placed(panel.after) + high}px`, height: `${panel.height}px` }}>
      <${Boundary} of=${panel.after}>${panel.node}<//>
    </div>`}
    ${!count && html`<div class="empty">${empty}</div>`}
  </div>`;
}
