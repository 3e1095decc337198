// The waterfall of a trace. Columns come as arrays; the document holds only the rows in sight.
// Nothing here makes markup of stored text: it is set as text content or comes escaped.

import { BAD, ERROR, FAILED, Rows, took } from "./trace-rows.js";

const ROW_PX = 26;
const SPARE = 8; // rows above and below those in sight
const SIGNS = { failed: "✗", errored: "!", skipped: "–", passed: "✓" };

class Waterfall {
  constructor(section, rows) {
    this.rows = rows;
    this.section = section;
    this.scroll = section.querySelector(".wf-scroll");
    this.map = section.querySelector(".wf-map");
    this.axis = section.querySelector(".wf-axis");
    this.pane = document.getElementById("detail");
    this.address = `/traces/${encodeURIComponent(section.dataset.trace)}`;
    this.current = 0;
    this.selected = -1;
    this.hasHits = false;
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
    const look = (event) => event.buttons && this.lookAt(event);
    this.map.addEventListener("pointerdown", look);
    this.map.addEventListener("pointermove", look);
    new ResizeObserver(() => this.drawAll()).observe(this.scroll);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawAll());
    this.drawAll();
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
    this.buttons.get("squeeze").setAttribute("aria-pressed", this.rows.squeezed);
    this.buttons.get("fit").setAttribute("aria-pressed", this.fits);
    this.inner.style.height = `${this.rows.shown * ROW_PX}px`;
    this.fit();
    this.draw();
    this.drawAxis();
    this.mapBase = undefined;
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
    element.className = `wf-row${marks & ERROR ? " bad" : ""}${rows.hit[row] ? " hit" : ""}`
      + `${row === this.current ? " current" : ""}${row === this.selected ? " selected" : ""}`;
    element.setAttribute("aria-level", rows.depth[row] + 1);
    element.setAttribute("aria-selected", row === this.selected);
    if (isParent) element.setAttribute("aria-expanded", !rows.closed[row]);
    else element.removeAttribute("aria-expanded");
    label.style.paddingLeft = `${Math.min(rows.depth[row], 16) * 14}px`;
    twisty.textContent = isParent ? (rows.closed[row] ? "▸" : "▾") : "";
    chip.className = `wf-chip k-${kind}`;
    chip.title = kind;
    name.textContent = rows.strings[rows.name[row]] || "(no name)";
    badges.replaceChildren(...this.badges(row, marks));
    track.firstChild.className = `wf-bar k-${marks & ERROR ? "bad" : kind}`;
    const left = this.at(rows.left[row]);
    track.firstChild.style.left = `${left}%`;
    track.firstChild.style.width = `max(2px, ${this.at(rows.left[row] + rows.width[row]) - left}%)`;
    length.textContent = took(rows.lengthNs[row]);
  }

  badges(row, marks) {
    const found = [];
    let passed = 0;
    for (let at = this.rows.firstResult[row]; at < this.rows.firstResult[row + 1]; at++) {
      const [, task, outcome] = this.rows.results[at], word = this.rows.strings[outcome];
      if (word === "passed") passed++;
      else found.push(badge(word, `${SIGNS[word] ?? ""} ${this.rows.strings[task]}`));
    }
    if (marks & ERROR && !found.length) found.push(badge("failed", "error"));
    if (passed && !found.length) found.push(badge("passed", `✓ ${passed}`));
    return found.length > 1 ? [found[0], more(found.slice(1))] : found;
  }

  drawAxis() {
    const { rows } = this, { at_ns: at, idle } = rows.axis;
    const parts = [tick(0, took(rows.timeAt(this.from))), tick(100, took(rows.timeAt(this.to)))];
    let free = 14; // percent from which a label stands on no other
    idle.forEach((isIdle, stretch) => {
      const left = this.at(rows.place(at[stretch])), right = this.at(rows.place(at[stretch + 1]));
      if (!isIdle || !rows.squeezed || right < 0 || left > 100) return;
      const waited = took(at[stretch + 1] - at[stretch]), gap = tick(left, "");
      gap.className = "wf-gap";
      gap.style.width = `max(5px, ${right - left}%)`;
      gap.title = `${waited} in which nothing ran`;
      parts.push(gap);
      if (right >= free && right < 76) parts.push(tick(right, `⋯ ${waited}`));
      if (right >= free) free = right + 16;
    });
    this.axis.lastElementChild.replaceChildren(...parts);
  }

  drawMap() {
    const ratio = devicePixelRatio, width = this.map.clientWidth, height = this.map.clientHeight;
    const context = this.map.getContext("2d");
    this.mapBase ??= this.drawBase(width, height, ratio);
    this.map.width = width * ratio;
    this.map.height = height * ratio;
    context.drawImage(this.mapBase, 0, 0);
    context.scale(ratio, ratio);
    const whole = Math.max(1, this.rows.shown * ROW_PX), room = width - 10;
    const top = (this.scroll.scrollTop / whole) * height;
    context.strokeStyle = this.colour("wf-view");
    context.lineWidth = 1.5;
    context.strokeRect(this.from * room + 0.75, top + 0.75, Math.max(6, (this.to - this.from) * room), Math.max(3, Math.min(height, (this.scroll.clientHeight / whole) * height) - 1.5));
  }

  // All visible rows, once for each change of what is visible; bad ones last, so that they stay seen.
  drawBase(width, height, ratio) {
    const canvas = document.createElement("canvas"), { rows } = this;
    canvas.width = Math.max(1, width * ratio);
    canvas.height = Math.max(1, height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const colours = rows.kinds.map((kind) => this.colour(`k-${kind}`));
    const thick = Math.max(1, height / Math.max(1, rows.shown)), room = width - 10;
    for (let position = 0; position < rows.shown; position++) {
      const row = rows.visible[position];
      context.fillStyle = colours[rows.kind[row]];
      context.fillRect(rows.left[row] * room, (position / rows.shown) * height, Math.max(1, rows.width[row] * room), Math.min(thick, 4));
    }
    const bad = this.colour("k-bad"), doubt = this.colour("k-doubt"), hit = this.colour("k-hit");
    for (let position = 0; position < rows.shown; position++) {
      const row = rows.visible[position], marks = rows.marks[row] & BAD;
      if (!marks && !rows.hit[row]) continue;
      context.fillStyle = rows.hit[row] ? hit : marks & (ERROR | FAILED) ? bad : doubt;
      const y = (position / rows.shown) * height;
      context.fillRect(rows.left[row] * room, y, Math.max(2, rows.width[row] * room), Math.max(1.5, Math.min(thick, 4)));
      context.fillRect(width - 8, y, 8, Math.max(2, Math.min(thick, 4)));
    }
    return canvas;
  }

  colour(name) {
    this.probe ??= this.section.appendChild(Object.assign(document.createElement("span"), { hidden: true }));
    this.probe.className = name;
    return getComputedStyle(this.probe).color;
  }

  lookAt(event) {
    const share = event.offsetY / this.map.clientHeight;
    this.scroll.scrollTop = share * this.rows.shown * ROW_PX - this.scroll.clientHeight / 2;
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
    const row = this.rows.nextMark(this.current, step, this.hasHits);
    if (row < 0) return;
    this.rows.openTo(row);
    this.drawAll();
    this.moveTo(row, true);
  }

  act(name) {
    if (name === "next" || name === "previous") this.goToMark(name === "next" ? 1 : -1);
    else if (name === "squeeze") {
      this.rows.layOut(!this.rows.squeezed);
      this.drawAll();
    } else if (name === "fit") {
      this.fits = !this.fits;
      this.drawAll();
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
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) {
      const to = Math.min(Math.max(at + steps[event.key], 0), this.rows.shown - 1);
      this.moveTo(this.rows.visible[to]);
    } else if (event.key === "ArrowRight") {
      if (this.rows.closed[this.current]) this.toggle(this.current, false);
      else if (this.rows.hasChildren(this.current)) this.moveTo(this.current + 1);
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
    this.asked?.abort();
    this.asked = new AbortController();
    const id = this.rows.idOf(row), address = new URL(location.href);
    address.searchParams.set("span", id);
    address.hash = "";
    history.replaceState(null, "", address);
    this.pane.setAttribute("aria-busy", "true");
    try {
      const answer = await ask(`${this.address}/spans/${id}`, this.asked.signal);
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

function badge(outcome, words) {
  return Object.assign(span(`outcome ${outcome}`), { textContent: words, title: words });
}

function more(others) {
  const words = others.map((each) => each.title).join("\n");
  return Object.assign(badge("failed", `+${others.length}`), { title: words });
}

function tick(percent, words) {
  const element = Object.assign(span(percent === 100 ? "wf-tick end" : "wf-tick"), { textContent: words });
  element.style.left = `${percent}%`;
  return element;
}

async function ask(address, signal) {
  const answer = await fetch(address, { headers: { "HX-Request": "true" }, signal });
  if (answer.redirected) location.reload(); // the session is over
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  return answer;
}

// Opens what a link into a span leads to.
function reveal() {
  const target = location.hash.startsWith("#at") && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
  target.scrollIntoView({ block: "center" });
}

async function begin(section) {
  const address = `/traces/${encodeURIComponent(section.dataset.trace)}`, note = section.querySelector(".wf-note");
  try {
    const found = await (await ask(`${address}/columns`)).json();
    const waterfall = new Waterfall(section, new Rows(found.columns)), { rows } = waterfall;
    const named = section.dataset.span || location.hash.match(/^#s([0-9a-f]{16})$/)?.[1] || "";
    const row = rows.rowOf(named);
    if (section.dataset.filter) {
      const query = new URLSearchParams({ filter: section.dataset.filter });
      const hits = await (await ask(`${address}/matches?${query}`)).json();
      waterfall.hasHits = rows.markHits(new Set(hits.span_ids)) > 0;
      waterfall.drawAll();
    }
    if (row >= 0) {
      waterfall.selected = row;
      waterfall.moveTo(row, true);
      if (!section.dataset.span) await waterfall.select(row);
    } else if (waterfall.hasHits) waterfall.moveTo(rows.nextMark(-1, 1, true), true);
    section.dataset.ready = Math.round(performance.now()); // milliseconds since the page was asked for
    if (note) note.textContent = "";
  } catch (error) {
    if (note) note.textContent = `The rest could not be loaded: ${error.message}`;
  }
  document.body.dispatchEvent(new Event("rows-ready")); // what takes longer may be asked for now
}

addEventListener("hashchange", reveal);
reveal();
document.querySelectorAll(".waterfall").forEach(begin);
