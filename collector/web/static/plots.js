// The plot of a task's rate, with uPlot: what the figure's own SVG shows, with values on the pointer.
// It has a line for each version, or one for all together.

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
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.lineWidth = 5 * ratio;
    data.lines.forEach((each, place) => {
      ctx.strokeStyle = faded(colour(figure, `line-${place}`));
      data.x.forEach((at, index) => {
        // A point alone has no band; its interval is a bar.
        if (each.rate[index] == null || each.rate[index - 1] != null || each.rate[index + 1] != null) return;
        const x = plot.valToPos(at, "x", true);
        line(ctx, x, plot.valToPos(each.lower[index], "y", true), x, plot.valToPos(each.upper[index], "y", true));
      });
    });
    ctx.lineWidth = 1.5 * ratio;
    if (data.healthy != null) {
      const y = plot.valToPos(data.healthy, "y", true);
      ctx.strokeStyle = good;
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      line(ctx, bbox.left, y, bbox.left + bbox.width, y);
    }
    data.marks.forEach((mark, place) => {
      const x = plot.valToPos(mark.at_s, "x", true);
      ctx.strokeStyle = mark.kind === "alert" ? bad : note;
      ctx.setLineDash(mark.kind === "alert" ? [] : [3 * ratio, 3 * ratio]);
      line(ctx, x, bbox.top, x, bbox.top + bbox.height);
      const isRight = x + ctx.measureText(mark.label).width + 5 * ratio > bbox.left + bbox.width;
      ctx.textAlign = isRight ? "right" : "left";
      ctx.fillStyle = ctx.strokeStyle;
      ctx.fillText(mark.label, x + (isRight ? -5 : 5) * ratio, bbox.top + bbox.height - (8 + 14 * (place % 3)) * ratio);
    });
    ctx.restore();
  };
}

function line(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

// A line with its interval: three series, of which one is in the legend.
function series(figure, each, place) {
  const stroke = colour(figure, `line-${place}`), bound = { class: "bounds", stroke: "transparent", points: { show: false } };
  const shown = (at) => `${percent(each.rate[at])} (${percent(each.lower[at])} – ${percent(each.upper[at])}) of ${each.n[at]}`;
  return [
    {
      label: each.version || "passed",
      stroke,
      width: 2,
      dash: place ? [5, 3] : [],
      points: { show: true, size: 6, fill: place ? colour(figure, "p-ground") : stroke },
      value: (_, value, __, at) => (value == null ? "–" : shown(at)),
      spanGaps: false,
    },
    bound,
    bound,
  ];
}

function draw(figure) {
  const data = JSON.parse(figure.dataset.plot), note = colour(figure, "p-note"), length = data.until_s - data.since_s;
  const edge = colour(figure, "p-line"), isLong = length > 3 * DAY_S, isShort = length < 1200;
  const axis = { stroke: note, grid: { stroke: edge, width: 1 }, ticks: { stroke: edge, width: 1 } };
  const utc = (seconds) => new Date(seconds * 1000).toISOString();
  const when = (seconds) => (isLong ? utc(seconds).slice(5, 10) : utc(seconds).slice(11, isShort ? 19 : 16));
  const options = {
    width: figure.clientWidth,
    height: 240,
    scales: { x: { time: true, range: () => [data.since_s, data.until_s] }, y: { range: () => [0, 1] } },
    axes: [{ ...axis, values: (_, at) => at.map(when) }, { ...axis, size: 52, values: (_, at) => at.map((v) => `${v * 100} %`) }],
    series: [
      { label: "UTC", value: (_, at) => (at == null ? "–" : utc(at).slice(0, isShort ? 19 : 16).replace("T", " ")) },
      ...data.lines.flatMap((each, place) => series(figure, each, place)),
    ],
    bands: data.lines.map((_, place) => ({ series: [3 * place + 3, 3 * place + 2], fill: faded(colour(figure, `line-${place}`)) })),
    hooks: { draw: [marks(figure, data)] },
  };
  const plot = new uPlot(options, [data.x, ...data.lines.flatMap((each) => [each.rate, each.lower, each.upper])], figure);
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
