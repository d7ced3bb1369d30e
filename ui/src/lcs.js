// The longest common subsequence, bounded: what two lists have in common, in order. Used for lines and for calls.
const MOST_CELLS = 4_000_000;

// Return the pairs of places that match, in order. Of what is too large to compare, only beginning and end match.
export function common(left, right, same = (a, b) => a === b) {
  let head = 0;
  while (head < left.length && head < right.length && same(left[head], right[head])) head++;
  let tail = 0;
  const rest = Math.min(left.length, right.length) - head;
  while (tail < rest && same(left[left.length - 1 - tail], right[right.length - 1 - tail])) tail++;

  const pairs = [];
  for (let n = 0; n < head; n++) pairs.push([n, n]);
  for (const [a, b] of middle(left.slice(head, left.length - tail), right.slice(head, right.length - tail), same)) {
    pairs.push([a + head, b + head]);
  }
  for (let n = tail; n > 0; n--) pairs.push([left.length - n, right.length - n]);
  return pairs;
}

function middle(left, right, same) {
  const [rows, columns] = [left.length, right.length];
  if (!rows || !columns || (rows + 1) * (columns + 1) > MOST_CELLS) return [];
  const width = columns + 1;
  const best = new Uint16Array((rows + 1) * width);
  for (let a = rows - 1; a >= 0; a--) {
    for (let b = columns - 1; b >= 0; b--) {
      best[a * width + b] = same(left[a], right[b])
        ? best[(a + 1) * width + b + 1] + 1
        : Math.max(best[(a + 1) * width + b], best[a * width + b + 1]);
    }
  }
  const pairs = [];
  for (let a = 0, b = 0; a < rows && b < columns; ) {
    if (same(left[a], right[b])) pairs.push([a++, b++]);
    else if (best[(a + 1) * width + b] >= best[a * width + b + 1]) a++;
    else b++;
  }
  return pairs;
}

// Two lists side by side: pairs, and what only one of them has beside nothing.
export function aligned(left, right, same) {
  const rows = [];
  let [a, b] = [0, 0];
  for (const [x, y] of [...common(left, right, same), [left.length, right.length]]) {
    rows.push({ left: left.slice(a, x), right: right.slice(b, y), from: [a, b] });
    if (x < left.length && y < right.length) rows.push({ pair: [left[x], right[y]], from: [x, y] });
    [a, b] = [x + 1, y + 1];
  }
  return rows.filter((row) => row.pair || row.left.length || row.right.length);
}
