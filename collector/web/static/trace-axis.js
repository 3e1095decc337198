// The axis above the rows: its ends, a few times between them, and the waits that are drawn short.

import { took } from "./trace-rows.js";

const LABEL_PX = 44; // room of a label, so that none stands on another

// Writes the labels of the part of an axis that shows. `at` tells the place of a share, in percent.
export function drawAxis(element, rows, from, to, at) {
  const { at_ns: points, idle } = rows.axis, first = rows.timeAt(from), last = rows.timeAt(to);
  const wide = (100 * LABEL_PX) / Math.max(element.clientWidth, LABEL_PX), taken = [[0, 0.7 * wide], [100 - wide, 100]];
  const gaps = [], labels = [];
  const isFree = (left, right) => taken.every(([begin, end]) => right <= begin || left >= end);
  idle.forEach((isIdle, stretch) => {
    const left = at(rows.place(points[stretch])), right = at(rows.place(points[stretch + 1]));
    if (!isIdle || !rows.squeezed || right < 0 || left > 100) return;
    const waited = took(points[stretch + 1] - points[stretch]), gap = tick("wf-gap", left, "");
    gap.style.width = `max(5px, ${right - left}%)`;
    gap.title = `${waited} in which nothing ran`;
    gaps.push(gap);
    if (isFree(right, right + 1.4 * wide)) {
      labels.push(tick("wf-tick", right, `⋯ ${waited}`));
      taken.push([left, right + 1.4 * wide]);
    } else taken.push([left, right]);
  });
  // A squeezed axis has no even steps.
  const times = gaps.length
    ? [0.25, 0.5, 0.75].map((part) => rows.timeAt(from + part * (to - from)))
    : between(first, last, ((last - first) * wide) / 100);
  for (const ns of times) {
    const left = at(rows.place(ns));
    if (isFree(left, left + wide)) labels.push(tick("wf-tick inner", left, took(ns)));
  }
  const ends = [tick("wf-tick", 0, took(first)), tick("wf-tick end", 100, took(last))];
  element.replaceChildren(...ends, ...gaps, ...labels);
}

// Round times between two others, at least so far from each other.
function between(first, last, least) {
  const found = [], power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
  if (!step) return found; // the trace takes no time
  for (let ns = Math.ceil(first / step) * step; ns < last; ns += step) found.push(ns);
  return found;
}

function tick(name, percent, words) {
  const element = Object.assign(document.createElement("span"), { className: name, textContent: words });
  element.style.left = `${percent}%`;
  return element;
}
