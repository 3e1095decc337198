// The plot of a task's rate, with uPlot: what the figure's own SVG shows, with values on the pointer.

const DAY_S = 86400;

function colour(figure, name) {
  const probe = figure.appendChild(Object.assign(document.createElement("span"), { className: name, hidden: true }));
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function faded(found) {
  return found.replace("rgb(", "rgba(").replace(")", ", 0.18)");
}

function percent(value) {
  return value == null ? "–" : `${(value * 100).toFixed(1)} %`;
}

// Vertical lines for alerts and change points, a level for what is healthy.
function marks(figure, data) {
  const bad = colour(figure, "k-bad"), good = colour(figure, "p-good"), note = colour(figure, "p-note");
  return (plot) => {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = 1.5 * ratio;
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.strokeStyle = faded(colour(figure, "p-link"));
    ctx.lineWidth = 5 * ratio;
    data.x.forEach((at, index) => {
      // A point alone has no band; its interval is a bar.
      if (data.rate[index] == null || data.rate[index - 1] != null || data.rate[index + 1] != null) return;
      const x = plot.valToPos(at, "x", true);
      line(ctx, x, plot.valToPos(data.lower[index], "y", true), x, plot.valToPos(data.upper[index], "y", true));
    });
    ctx.lineWidth = 1.5 * ratio;
    if (data.healthy != null) {
      const y = plot.valToPos(data.healthy, "y", true);
      ctx.strokeStyle = good;
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      line(ctx, bbox.left, y, bbox.left + bbox.width, y);
    }
    for (const mark of data.marks) {
      const x = plot.valToPos(mark.at_s, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = mark.kind === "alert" ? bad : note;
      ctx.setLineDash(mark.kind === "alert" ? [] : [3 * ratio, 3 * ratio]);
      line(ctx, x, bbox.top, x, bbox.top + bbox.height);
      const isRight = x + ctx.measureText(mark.label).width + 5 * ratio > bbox.left + bbox.width;
      ctx.textAlign = isRight ? "right" : "left";
      ctx.fillStyle = ctx.strokeStyle;
      ctx.fillText(mark.label, x + (isRight ? -5 : 5) * ratio, bbox.top + bbox.height - 8 * ratio);
    }
    ctx.restore();
  };
}

function line(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

function draw(figure) {
  const data = JSON.parse(figure.dataset.plot), link = colour(figure, "p-link"), note = colour(figure, "p-note");
  const edge = colour(figure, "p-line"), isLong = data.x.length > 1 && data.x.at(-1) - data.x[0] > 3 * DAY_S;
  const axis = { stroke: note, grid: { stroke: edge, width: 1 }, ticks: { stroke: edge, width: 1 } };
  const utc = (seconds) => new Date(seconds * 1000).toISOString();
  const when = (seconds) => (isLong ? utc(seconds).slice(5, 10) : utc(seconds).slice(11, 16));
  const options = {
    width: figure.clientWidth,
    height: 240,
    scales: { x: { time: true, range: () => [data.since_s, data.until_s] }, y: { range: () => [0, 1] } },
    axes: [{ ...axis, values: (_, at) => at.map(when) }, { ...axis, size: 52, values: (_, at) => at.map((v) => `${v * 100} %`) }],
    series: [
      { label: "UTC", value: (_, at) => (at == null ? "–" : utc(at).slice(0, 16).replace("T", " ")) },
      { label: "passed", stroke: link, width: 2, points: { show: true, size: 6, fill: link }, value: (_, v) => percent(v), spanGaps: false },
      { label: "at least", stroke: "transparent", value: (_, v) => percent(v), points: { show: false } },
      { label: "at most", stroke: "transparent", value: (_, v) => percent(v), points: { show: false } },
      { label: "results", show: true, stroke: "transparent", scale: "n", points: { show: false }, value: (_, v) => v ?? "–" },
    ],
    bands: [{ series: [3, 2], fill: faded(link) }],
    hooks: { draw: [marks(figure, data)] },
  };
  const plot = new uPlot(options, [data.x, data.rate, data.lower, data.upper, data.n], figure);
  figure.prepend(plot.root);
  return plot;
}

document.querySelectorAll("figure[data-plot]").forEach((figure) => {
  let plot = draw(figure);
  figure.querySelector("svg").remove();
  new ResizeObserver(() => plot.setSize({ width: figure.clientWidth, height: 240 })).observe(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    plot.destroy();
    plot = draw(figure);
  });
});
