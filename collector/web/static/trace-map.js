// The map above the rows: all of them at once, a pixel high where they are many.

import { BAD, ERROR, FAILED } from "./trace-rows.js";

const EDGE = 10; // pixels on the right for the marks of bad rows

export class TraceMap {
  // Args: its canvas, the rows, and what gets a share of the rows that somebody points at.
  constructor(canvas, rows, lookAt) {
    this.canvas = canvas;
    this.rows = rows;
    const look = (event) => event.buttons && lookAt(event.offsetY / canvas.clientHeight);
    canvas.addEventListener("pointerdown", look);
    canvas.addEventListener("pointermove", look);
  }

  // Draws the map again at the next `draw`: other rows show, or in other colours.
  forget() {
    this.base = undefined;
  }

  // Draws the map, and a frame round what is in sight: shares of the rows and of the axis.
  draw(top, bottom, from, to) {
    if (this.canvas.hidden) return;
    const ratio = devicePixelRatio, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const context = this.canvas.getContext("2d");
    this.base ??= this.drawBase(width, height, ratio);
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    context.drawImage(this.base, 0, 0);
    context.scale(ratio, ratio);
    const room = width - EDGE, y = Math.min(top, 1) * height;
    context.strokeStyle = this.colour("wf-view");
    context.lineWidth = 1.5;
    context.strokeRect(from * room + 0.75, y + 0.75, Math.max(6, (to - from) * room - 1.5), Math.max(3, Math.min(bottom, 1) * height - y - 1.5));
  }

  // All visible rows, once for each change of what is visible; bad ones last, so that they stay seen.
  drawBase(width, height, ratio) {
    const canvas = document.createElement("canvas"), { rows } = this;
    canvas.width = Math.max(1, width * ratio);
    canvas.height = Math.max(1, height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const colours = rows.kinds.map((kind) => this.colour(`k-${kind}`));
    const thick = Math.min(Math.max(1, height / Math.max(1, rows.shown)), 4), room = width - EDGE;
    for (let position = 0; position < rows.shown; position++) {
      const row = rows.visible[position];
      context.fillStyle = colours[rows.kind[row]];
      context.fillRect(rows.left[row] * room, (position / rows.shown) * height, Math.max(1, rows.width[row] * room), thick);
    }
    const bad = this.colour("k-bad"), doubt = this.colour("k-doubt");
    for (let position = 0; position < rows.shown; position++) {
      const row = rows.visible[position], marks = rows.marks[row] & BAD;
      if (!marks) continue;
      context.fillStyle = marks & (ERROR | FAILED) ? bad : doubt;
      const y = (position / rows.shown) * height;
      context.fillRect(rows.left[row] * room, y, Math.max(2, rows.width[row] * room), Math.max(1.5, thick));
      context.fillRect(width - EDGE + 3, y, EDGE - 4, Math.max(2, thick));
    }
    context.fillStyle = this.colour("wf-edge");
    context.fillRect(width - EDGE + 1, 0, 1, height);
    return canvas;
  }

  colour(name) {
    this.probe ??= this.canvas.parentElement.appendChild(Object.assign(document.createElement("span"), { hidden: true }));
    this.probe.className = name;
    return getComputedStyle(this.probe).color;
  }
}
