// Which rows show, and links that lead to a span: what a link or form of the view does by a new
// view without this script happens here in place, so that neither scroll nor chosen span is lost.

const PRESETS = {
  model: (rows, row) => ["model", "embedding"].includes(rows.kinds[rows.kind[row]]),
  tool: (rows, row) => rows.kinds[rows.kind[row]] === "tool",
  error: (rows, row) => rows.isError(row),
  bad: (rows, row) => rows.isBad(row),
};

export class Choice {
  // Args: the waterfall, and what asks the collector for the spans that a filter selects.
  constructor(waterfall, matches) {
    this.waterfall = waterfall;
    this.matches = matches;
    this.form = document.querySelector(".wf-tools form");
    this.said = document.querySelector(".wf-hits");
    document.addEventListener("click", (event) => this.onClick(event));
    this.form.addEventListener("submit", (event) => this.onSubmit(event));
  }

  onClick(event) {
    const link = event.target.closest("a");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const { goto, show } = link.dataset, { rows } = this.waterfall;
    if ("copyLink" in link.dataset) copy(link);
    else if (show !== undefined) this.preset(show);
    else if (goto) {
      const row = goto === "slowest" ? rows.slowest() : rows.rowOf(goto);
      if (row < 0) return;
      if (!rows.inChoice[row]) this.preset("");
      this.waterfall.goTo(row);
    } else return;
    event.preventDefault();
  }

  async onSubmit(event) {
    event.preventDefault();
    const text = this.form.elements.filter.value, address = new URL(location.href);
    try {
      await this.filter(text);
    } catch {
      address.searchParams.set("filter", text);
      address.hash = "spans";
      location.assign(address); // a new view says why it is no filter
    }
  }

  preset(name) {
    const selects = PRESETS[name], { rows } = this.waterfall;
    this.form.elements.filter.value = "";
    this.keep(selects && ((row) => selects(rows, row)), { show: name });
  }

  async filter(text) {
    if (!text) return this.preset("");
    const ids = new Set((await this.matches(text)).span_ids), { rows } = this.waterfall;
    this.keep((row) => ids.has(rows.idOf(row)), { filter: text });
  }

  keep(selects, named) {
    const found = this.waterfall.keep(selects);
    this.said.textContent = selects ? `${found.toLocaleString("en")} ${found === 1 ? "span matches" : "spans match"}.` : "";
    document.querySelectorAll("a[data-show]").forEach((link) => {
      if (link.dataset.show === (named.show ?? null)) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
    const address = new URL(location.href);
    for (const name of ["show", "filter"]) {
      if (named[name]) address.searchParams.set(name, named[name]);
      else address.searchParams.delete(name);
    }
    history.replaceState(null, "", address);
  }
}

async function copy(link) {
  const status = link.nextElementSibling;
  try {
    await navigator.clipboard.writeText(link.href);
    status.textContent = "Copied.";
  } catch {
    status.textContent = "Copy it from the address bar."; // no clipboard without TLS
  }
}
