// The axis above the rows: its ends, a few times between them, and the waits that are drawn short.

import { took } from "./trace-rows.js";

const APART_PX = 44; // from one time to the next, so that no label stands on another

// Writes the labels of the part of an axis that shows. `at` tells the place of a share, in percent.
export function drawAxis(element, rows, from, to, at) {
  const { at_ns: points, idle } = rows.axis, gaps = [], labels = [];
  let free = 14; // percent from which a label stands on no other
  idle.forEach((isIdle, stretch) => {
    const left = at(rows.place(points[stretch])), right = at(rows.place(points[stretch + 1]));
    if (!isIdle || !rows.squeezed || right < 0 || left > 100) return;
    const waited = took(points[stretch + 1] - points[stretch]), gap = tick("wf-gap", left, "");
    gap.style.width = `max(5px, ${right - left}%)`;
    gap.title = `${waited} in which nothing ran`;
    gaps.push(gap);
    if (right >= free && right < 76) labels.push(tick("wf-tick", right, `⋯ ${waited}`));
    if (right >= free) free = right + 16;
  });
  if (!gaps.length) {
    const first = rows.timeAt(from), last = rows.timeAt(to);
    const times = between(first, last, ((last - first) * APART_PX) / Math.max(element.clientWidth, APART_PX));
    labels.push(...times.map((ns) => tick("wf-tick inner", at(rows.place(ns)), took(ns))));
  }
  const ends = [tick("wf-tick", 0, took(rows.timeAt(from))), tick("wf-tick end", 100, took(rows.timeAt(to)))];
  element.replaceChildren(...ends, ...gaps, ...labels);
}

// Round times between two others, at least so far from both and from each other.
function between(first, last, least) {
  const found = [], end = last - 2 * least; // the label of the last one ends where it stands
  const power = 10 ** Math.floor(Math.log10(least)), step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
  if (!step) return found; // the trace takes no time
  for (let ns = Math.ceil(first / step) * step; ns <= end; ns += step) if (ns >= first + 0.7 * least) found.push(ns);
  return found;
}

function tick(name, percent, words) {
  const element = Object.assign(document.createElement("span"), { className: name, textContent: words });
  element.style.left = `${percent}%`;
  return element;
}
