(function () {
  "use strict";
  var tools = document.querySelector(".tools");
  if (!tools) { return; }
  var search = tools.querySelector("input");
  var buttons = Array.from(tools.querySelectorAll("button"));
  var scenarios = Array.from(document.querySelectorAll("details.scenario"));
  var texts = scenarios.map(function (scenario) {
    return scenario.querySelector("summary").textContent.toLowerCase();
  });
  var count = document.querySelector("#shown");
  var kind = "all";

  function apply() {
    var wanted = search.value.trim().toLowerCase();
    var shown = 0;
    scenarios.forEach(function (scenario, index) {
      var fits = (kind === "all" || scenario.dataset.kinds.split(" ").indexOf(kind) >= 0) &&
        texts[index].indexOf(wanted) >= 0;
      scenario.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    count.textContent = shown === scenarios.length ? "" : shown + " of " + scenarios.length;
  }

  buttons.forEach(function (button) {
    button.addEventListener("click", function () {
      kind = button.dataset.kind;
      buttons.forEach(function (other) {
        other.setAttribute("aria-pressed", String(other === button));
      });
      apply();
    });
  });
  search.addEventListener("input", apply);
  tools.hidden = false;
})();
