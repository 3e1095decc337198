// The rows of a trace as arrays: no object for a row, neither at the start nor on a click.

export const ERROR = 1, FAILED = 2, ERRORED = 4; // bits of a row's marks
export const BAD = ERROR | FAILED | ERRORED;

export class Rows {
  // Columns of a trace and what is open of its tree.
  constructor(columns) {
    this.count = columns.depth.length;
    this.strings = columns.strings;
    this.kinds = columns.kinds;
    this.ids = columns.span_ids;
    this.axis = columns.axis;
    this.durationNs = Math.max(columns.duration_ns, 1);
    this.parent = Int32Array.from(columns.parent);
    this.depth = Int32Array.from(columns.depth);
    this.afterNs = Float64Array.from(columns.after_ns);
    this.lengthNs = Float64Array.from(columns.length_ns);
    this.kind = Uint8Array.from(columns.kind);
    this.name = Int32Array.from(columns.name);
    this.marks = Uint8Array.from(columns.marks);
    this.results = columns.results; // by row: row, task, outcome
    this.firstResult = new Int32Array(this.count + 1);
    for (const [row] of this.results) this.firstResult[row + 1]++;
    for (let row = 0; row < this.count; row++) this.firstResult[row + 1] += this.firstResult[row];
    this.closed = new Uint8Array(this.count);
    this.hit = new Uint8Array(this.count); // a choice selects it
    this.inChoice = new Uint8Array(this.count); // it is selected or above such a row, or there is no choice
    this.below = new Uint8Array(this.count); // a row directly below it is in the choice
    this.visible = new Int32Array(this.count);
    this.shown = 0;
    this.left = new Float32Array(this.count);
    this.width = new Float32Array(this.count);
    this.layOut(true);
    this.keep();
  }

  hasChildren(row) {
    return this.below[row] === 1;
  }

  isError(row) {
    return (this.marks[row] & ERROR) > 0;
  }

  isBad(row) {
    return (this.marks[row] & (FAILED | ERRORED)) > 0;
  }

  // Keeps the rows that a choice selects and those above them, all open; all rows without a choice.
  // Gives how many are selected.
  keep(selects) {
    let found = 0;
    this.hit.fill(0);
    this.below.fill(0);
    if (selects) this.closed.fill(0);
    for (let row = this.count - 1; row >= 0; row--) {
      if (selects) found += this.hit[row] = selects(row) ? 1 : 0;
      this.inChoice[row] = !selects || this.hit[row] || this.below[row] ? 1 : 0;
      if (this.inChoice[row] && this.parent[row] >= 0) this.below[this.parent[row]] = 1;
    }
    this.rebuild();
    return found;
  }

  // The row that took the longest by itself, without the rows directly below it.
  slowest() {
    const own = Float64Array.from(this.lengthNs);
    this.parent.forEach((above, row) => above >= 0 && (own[above] -= this.lengthNs[row]));
    return own.reduce((best, ns, row) => (ns > own[best] ? row : best), 0);
  }

  // One pass over the rows: those that are not in the choice, or below a closed one, are left out.
  rebuild() {
    let hiddenBelow = Infinity;
    this.shown = 0;
    for (let row = 0; row < this.count; row++) {
      if (!this.inChoice[row] || this.depth[row] > hiddenBelow) continue;
      hiddenBelow = this.closed[row] ? this.depth[row] : Infinity;
      this.visible[this.shown++] = row;
    }
  }

  // The position of a row among the visible ones, or of the one before it.
  positionOf(row) {
    let low = 0, high = this.shown - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.visible[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  openTo(row) {
    for (let above = this.parent[row]; above >= 0; above = this.parent[above]) this.closed[above] = 0;
    this.rebuild();
  }

  closeAll(closed) {
    for (let row = 0; row < this.count; row++) this.closed[row] = closed && this.hasChildren(row) ? 1 : 0;
    this.rebuild();
  }

  rowOf(id) {
    let at = id.length === 16 ? this.ids.indexOf(id) : -1;
    while (at >= 0 && at % 16) at = this.ids.indexOf(id, at + 1);
    return at < 0 ? -1 : at / 16;
  }

  idOf(row) {
    return this.ids.slice(16 * row, 16 * row + 16);
  }

  place(ns) {
    const { at_ns: at, share } = this.axis;
    if (!this.squeezed) return Math.min(Math.max(ns / this.durationNs, 0), 1);
    let low = 0, high = at.length - 1;
    while (low < high - 1) {
      const middle = (low + high) >> 1;
      if (at[middle] <= ns) low = middle;
      else high = middle;
    }
    const part = at[high] > at[low] ? (ns - at[low]) / (at[high] - at[low]) : 0;
    return share[low] + Math.min(Math.max(part, 0), 1) * (share[high] - share[low]);
  }

  // The time at a place, nanoseconds since the trace began.
  timeAt(share) {
    const { at_ns: at, share: places } = this.axis;
    if (!this.squeezed) return share * this.durationNs;
    let stretch = 0;
    while (stretch < places.length - 2 && places[stretch + 1] < share) stretch++;
    const width = places[stretch + 1] - places[stretch] || 1;
    return at[stretch] + ((share - places[stretch]) / width) * (at[stretch + 1] - at[stretch]);
  }

  layOut(squeezed) {
    this.squeezed = squeezed;
    for (let row = 0; row < this.count; row++) {
      this.left[row] = this.place(this.afterNs[row]);
      this.width[row] = this.place(this.afterNs[row] + this.lengthNs[row]) - this.left[row];
    }
  }

  // The next row in a direction that is marked; of a choice, that it selects.
  nextMark(row, step, hasHits) {
    for (let at = row + step; at >= 0 && at < this.count; at += step) {
      if (hasHits ? this.hit[at] : this.marks[at] & BAD) return at;
    }
    return -1;
  }
}

export function took(ns) {
  const ms = ns / 1e6;
  if (!ns) return "0";
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 1000) return `${ms.toFixed(0)} ms`;
  return ms < 120000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60000).toFixed(1)} min`;
}
