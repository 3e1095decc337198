// The waterfall of a trace. Columns come as arrays; the document holds only the rows in sight.
// Nothing here makes markup of stored text: it is set as text content or comes escaped.

import { drawAxis } from "./trace-axis.js";
import { Choice } from "./trace-choice.js";
import { TraceMap } from "./trace-map.js";
import { ERROR, ERRORED, FAILED, Rows, took } from "./trace-rows.js";

const ROW_PX = 26;
const SPARE = 8; // rows above and below those in sight
const SIGNS = { failed: "✗", errored: "!", skipped: "–", passed: "✓" };

class Waterfall {
  constructor(section, rows) {
    this.rows = rows;
    this.section = section;
    this.scroll = section.querySelector(".wf-scroll");
    this.status = section.querySelector(".wf-status");
    this.axis = section.querySelector(".wf-axis");
    this.pane = document.getElementById("detail");
    this.address = `/traces/${encodeURIComponent(section.dataset.trace)}`;
    this.current = 0;
    this.selected = -1;
    this.hasChoice = false; // of rows that show
    this.pool = [];
    this.version = 0; // of what a row may show beside its columns
    this.fits = rows.count > 500; // the time axis shows the time of the rows in sight
    this.from = 0;
    this.to = 1;
    this.build();
  }

  build() {
    const was = this.scroll.scrollTop;
    this.inner = document.createElement("div");
    this.inner.className = "wf-inner";
    this.inner.setAttribute("role", "none");
    this.scroll.replaceChildren(this.inner);
    this.scroll.setAttribute("role", "tree");
    this.scroll.setAttribute("aria-label", "Spans; arrow keys move, Enter shows a span");
    this.scroll.tabIndex = 0;
    this.scroll.classList.add("live");
    this.section.querySelectorAll("[hidden]").forEach((each) => (each.hidden = false));
    this.scroll.addEventListener("scroll", () => this.later());
    this.scroll.addEventListener("keydown", (event) => this.onKey(event));
    this.inner.addEventListener("click", (event) => this.onClick(event));
    this.buttons = new Map([...this.section.querySelectorAll("[data-do]")].map((each) => [each.dataset.do, each]));
    this.buttons.forEach((button, name) => button.addEventListener("click", () => this.act(name)));
    this.map = new TraceMap(this.section.querySelector(".wf-map"), this.rows, (share) => this.lookAt(share));
    new ResizeObserver(() => this.drawAll()).observe(this.scroll);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawAll());
    this.drawAll();
    this.map.canvas.hidden = this.scroll.scrollHeight <= this.scroll.clientHeight; // all rows are in sight
    this.drawMap();
    this.scroll.scrollTop = was;
  }

  later() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (this.fits && this.fit()) {
        this.version++;
        this.drawAxis();
      }
      this.draw();
      this.drawMap();
    });
  }

  drawAll() {
    this.version++;
    this.buttons.get("squeeze").setAttribute("aria-pressed", this.rows.squeezed && this.hasWaits);
    this.buttons.get("fit").setAttribute("aria-pressed", this.fits);
    this.inner.style.height = `${this.rows.shown * ROW_PX}px`;
    this.fit();
    this.draw();
    this.drawAxis();
    this.map.forget();
    this.drawMap();
  }

  // Chooses the part of the axis that shows: all of it, or that of the rows in sight that have none
  // below them. Tells whether it is another one than before.
  fit() {
    const { rows } = this, was = this.from + 2 * this.to;
    let from = 1, to = 0;
    const first = Math.floor(this.scroll.scrollTop / ROW_PX), count = Math.ceil(this.scroll.clientHeight / ROW_PX);
    for (let position = first; this.fits && position < Math.min(first + count, rows.shown); position++) {
      const row = rows.visible[position];
      if (rows.hasChildren(row) && !rows.closed[row]) continue;
      from = Math.min(from, rows.left[row]);
      to = Math.max(to, rows.left[row] + rows.width[row]);
    }
    [this.from, this.to] = from < to ? [from, to] : [0, 1];
    return this.from + 2 * this.to !== was;
  }

  // The place of a share of the axis in what shows of it, in percent.
  at(share) {
    return Math.min(Math.max((share - this.from) / (this.to - this.from), -0.01), 1.01) * 100;
  }

  // Fills as many row elements as are in sight. An element stays with its place, so that a scroll
  // by one row writes one row.
  draw() {
    const wanted = Math.ceil(this.scroll.clientHeight / ROW_PX) + 2 * SPARE;
    while (this.pool.length < wanted) this.pool.push(this.inner.appendChild(newRow()));
    const size = this.pool.length;
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW_PX) - SPARE);
    for (let position = first; position < first + size; position++) {
      const element = this.pool[position % size];
      const key = `${position} ${this.version}`;
      if (element.dataset.key === key) continue;
      element.dataset.key = key;
      element.hidden = position >= this.rows.shown;
      if (!element.hidden) this.fill(element, position);
    }
    const at = this.rows.positionOf(this.current);
    const active = this.pool[at % size];
    if (active && at >= first && at < first + size) this.scroll.setAttribute("aria-activedescendant", active.id);
    else this.scroll.removeAttribute("aria-activedescendant");
  }

  fill(element, position) {
    const { rows } = this, row = rows.visible[position], marks = rows.marks[row];
    const [label, track, length] = element.children, [twisty, chip, name, badges] = label.children;
    const kind = rows.kinds[rows.kind[row]], isParent = rows.hasChildren(row);
    element.style.transform = `translateY(${position * ROW_PX}px)`;
    element.dataset.row = row;
    element.className = `wf-row${marks & ERROR ? " bad" : ""}${this.hasChoice && !rows.hit[row] ? " above" : ""}`
      + `${row === this.current ? " current" : ""}${row === this.selected ? " selected" : ""}`;
    element.setAttribute("aria-level", rows.depth[row] + 1);
    element.setAttribute("aria-selected", row === this.selected);
    if (isParent) element.setAttribute("aria-expanded", !rows.closed[row]);
    else element.removeAttribute("aria-expanded");
    label.style.setProperty("--depth", Math.min(rows.depth[row], 16));
    twisty.textContent = isParent ? (rows.closed[row] ? "▸" : "▾") : "";
    chip.className = `wf-chip k-${kind}`;
    chip.title = kind;
    name.textContent = rows.strings[rows.name[row]] || "(no name)";
    badges.replaceChildren(...this.badges(row, marks));
    track.firstChild.className = `wf-bar k-${marks & (ERROR | FAILED) ? "bad" : marks & ERRORED ? "doubt" : kind}`;
    const left = this.at(rows.left[row]);
    track.firstChild.style.left = `${left}%`;
    track.firstChild.style.width = `max(2px, ${this.at(rows.left[row] + rows.width[row]) - left}%)`;
    length.textContent = took(rows.lengthNs[row]);
  }

  badges(row, marks) {
    const found = [], passed = [];
    for (let at = this.rows.firstResult[row]; at < this.rows.firstResult[row + 1]; at++) {
      const [, task, outcome] = this.rows.results[at], word = this.rows.strings[outcome];
      if (word === "passed") passed.push(this.rows.strings[task]);
      else found.push(badge(word, `${SIGNS[word] ?? ""} ${this.rows.strings[task]}`));
    }
    if (marks & ERROR && !found.length) found.push(badge("failed", "error"));
    if (passed.length && !found.length) found.push(badge("passed", `✓ ${passed.length}`, `passed: ${passed.join(", ")}`));
    return found.length > 1 ? [found[0], more(found.slice(1))] : found;
  }

  drawAxis() {
    drawAxis(this.axis.lastElementChild, this.rows, this.from, this.to, (share) => this.at(share));
  }

  drawMap() {
    const whole = Math.max(1, this.rows.shown * ROW_PX), top = this.scroll.scrollTop / whole;
    this.map.draw(top, top + this.scroll.clientHeight / whole, this.from, this.to);
  }

  lookAt(share) {
    this.scroll.scrollTop = share * this.rows.shown * ROW_PX - this.scroll.clientHeight / 2;
  }

  get hasWaits() {
    return this.rows.axis.idle.includes(true);
  }

  // Shows the rows that a choice selects, or all without one; gives how many it selects.
  keep(selects) {
    const found = this.rows.keep(selects);
    this.tell("");
    this.hasChoice = Boolean(selects);
    this.drawAll();
    if (this.selected >= 0 && this.rows.inChoice[this.selected]) this.moveTo(this.selected, true);
    else if (selects && found) this.moveTo(this.rows.nextMark(-1, 1, true), true);
    return found;
  }

  // Leads to a row from elsewhere in the view.
  goTo(row) {
    this.rows.openTo(row);
    this.drawAll();
    this.moveTo(row, true);
    this.select(row);
    this.section.scrollIntoView({ block: "nearest" });
    this.scroll.focus({ preventScroll: true, focusVisible: false });
  }

  moveTo(row, centre = false) {
    this.current = row;
    const top = this.rows.positionOf(row) * ROW_PX, height = this.scroll.clientHeight;
    const isSeen = top >= this.scroll.scrollTop && top + ROW_PX <= this.scroll.scrollTop + height;
    this.inner.style.height = `${this.rows.shown * ROW_PX}px`;
    if (!isSeen) {
      const below = top > this.scroll.scrollTop ? top + ROW_PX - height : top;
      this.scroll.scrollTop = centre ? top - height / 2 : below;
    }
    this.version++;
    this.draw();
    this.drawMap();
  }

  toggle(row, closed) {
    if (!this.rows.hasChildren(row) || Boolean(this.rows.closed[row]) === closed) return;
    this.rows.closed[row] = closed ? 1 : 0;
    this.rows.rebuild();
    this.drawAll();
  }

  goToMark(step) {
    const row = this.rows.nextMark(this.current, step, this.hasChoice);
    if (row >= 0) return this.goTo(row);
    const hasAny = this.rows.nextMark(-1, 1, this.hasChoice) >= 0;
    this.tell(!hasAny ? "No row is marked." : step > 0 ? "No mark further down." : "No mark further up.");
  }

  tell(words) {
    this.status.textContent = words;
  }

  act(name) {
    this.tell("");
    if (name === "next" || name === "previous") this.goToMark(name === "next" ? 1 : -1);
    else if (name === "squeeze") {
      if (!this.hasWaits) return this.tell("No wait to shorten: something ran all the time.");
      this.rows.layOut(!this.rows.squeezed);
      this.drawAll();
    } else if (name === "fit") {
      this.fits = !this.fits;
      this.drawAll();
      const shown = `${took(this.rows.timeAt(this.from))} to ${took(this.rows.timeAt(this.to))}`;
      if (this.fits) this.tell(this.to - this.from < 1 ? `Time from ${shown}.` : "The rows in sight fill the whole time.");
    } else {
      this.rows.closeAll(name === "collapse");
      this.current = this.rows.visible[this.rows.positionOf(this.current)];
      this.drawAll();
      this.moveTo(this.current);
    }
  }

  onClick(event) {
    const element = event.target.closest(".wf-row");
    if (!element) return;
    const row = Number(element.dataset.row);
    this.current = row;
    if (event.target.className === "wf-twisty") this.toggle(row, !this.rows.closed[row]);
    else this.select(row);
  }

  onKey(event) {
    const at = this.rows.positionOf(this.current), page = Math.floor(this.scroll.clientHeight / ROW_PX) - 1;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -at, End: this.rows.shown };
    const buttons = { n: "next", p: "previous", c: "collapse", e: "expand", w: "squeeze", f: "fit" };
    if (event.ctrlKey || event.metaKey || event.altKey || !this.rows.shown) return;
    if (event.key in steps) {
      const to = Math.min(Math.max(at + steps[event.key], 0), this.rows.shown - 1);
      this.moveTo(this.rows.visible[to]);
    } else if (event.key === "ArrowRight") {
      if (this.rows.closed[this.current]) this.toggle(this.current, false);
      else if (this.rows.hasChildren(this.current)) this.moveTo(this.rows.visible[at + 1]);
    } else if (event.key === "ArrowLeft") {
      if (this.rows.hasChildren(this.current) && !this.rows.closed[this.current]) this.toggle(this.current, true);
      else if (this.rows.parent[this.current] >= 0) this.moveTo(this.rows.parent[this.current]);
    } else if (event.key === "Enter" || event.key === " ") this.select(this.current);
    else if (event.key in buttons) this.act(buttons[event.key]);
    else return;
    event.preventDefault();
  }

  async select(row) {
    this.selected = row;
    this.moveTo(row);
    this.request?.abort();
    this.request = new AbortController();
    const id = this.rows.idOf(row), address = new URL(location.href);
    address.searchParams.set("span", id);
    address.hash = "";
    history.replaceState(null, "", address);
    this.pane.setAttribute("aria-busy", "true");
    try {
      const answer = await ask(`${this.address}/spans/${id}`, this.request.signal);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      this.pane.replaceChildren(...page.body.childNodes);
      this.pane.scrollTop = 0;
      if (matchMedia("(max-width: 900px)").matches) this.pane.scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (error.name !== "AbortError") this.pane.textContent = `This span could not be loaded: ${error.message}`;
    }
    this.pane.removeAttribute("aria-busy");
  }
}

function newRow() {
  const row = document.createElement("div");
  row.setAttribute("role", "treeitem");
  row.id = `row-${(newRow.made = (newRow.made ?? 0) + 1)}`;
  const label = row.appendChild(span("wf-label")), track = row.appendChild(span("wf-track"));
  for (const name of ["wf-twisty", "wf-chip", "wf-name", "wf-badges"]) label.appendChild(span(name));
  track.appendChild(span("wf-bar"));
  row.appendChild(span("wf-length"));
  return row;
}

function span(name) {
  return Object.assign(document.createElement("span"), { className: name });
}

function badge(outcome, words, title = words) {
  return Object.assign(span(`outcome ${outcome}`), { textContent: words, title });
}

function more(others) {
  const words = others.map((each) => each.title).join("\n");
  return Object.assign(badge("failed", `+${others.length}`), { title: words });
}

async function ask(address, signal) {
  const answer = await fetch(address, { headers: { "HX-Request": "true" }, signal });
  if (answer.redirected) location.reload(); // the session is over
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  return answer;
}

// Opens what a link into a span leads to. The panel of a wide window scrolls by itself.
function reveal() {
  const target = location.hash.startsWith("#at") && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
  const pane = document.getElementById("detail");
  if (getComputedStyle(pane).position !== "sticky") return target.scrollIntoView({ block: "center" });
  document.querySelector(".waterfall").scrollIntoView({ block: "start" });
  pane.scrollTop += target.getBoundingClientRect().top - pane.getBoundingClientRect().top - 60;
}

async function begin(section) {
  const address = `/traces/${encodeURIComponent(section.dataset.trace)}`, note = section.querySelector(".wf-note");
  const { span: chosen, filter, show, joined } = section.dataset;
  try {
    const found = await (await ask(`${address}/columns${joined ? "?joined=true" : ""}`)).json();
    const isFocused = section.contains(document.activeElement);
    const waterfall = new Waterfall(section, new Rows(found.columns)), { rows } = waterfall;
    const matches = async (text) => (await ask(`${address}/matches?${new URLSearchParams({ filter: text, ...(joined && { joined }) })}`)).json();
    const choice = new Choice(waterfall, matches);
    const row = rows.rowOf(chosen || location.hash.match(/^#s([0-9a-f]{16})$/)?.[1] || "");
    if (row >= 0) {
      waterfall.selected = row;
      waterfall.moveTo(row, true);
      if (!chosen) await waterfall.select(row);
    }
    if (filter) await choice.filter(filter);
    else if (show) choice.preset(show);
    const isNew = performance.getEntriesByType("navigation")[0]?.type === "navigate"; // else the browser knows where it was
    if (row >= 0 && isNew && !location.hash.startsWith("#at")) section.scrollIntoView({ block: "start" });
    if (isFocused) waterfall.scroll.focus({ preventScroll: true, focusVisible: false });
    reveal();
    section.dataset.ready = Math.round(performance.now()); // milliseconds since the page was requested
    if (note) note.textContent = "";
  } catch (error) {
    if (note) note.textContent = `The rest could not be loaded: ${error.message}`;
  }
  document.body.dispatchEvent(new Event("rows-ready")); // what takes longer may be requested now
}

addEventListener("hashchange", reveal);
reveal();
document.querySelectorAll(".waterfall").forEach(begin);
