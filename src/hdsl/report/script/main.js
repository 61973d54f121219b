// --- one model after another -------------------------------------------------------------------

function showNow() {
  const { k } = view;
  $("now").replaceChildren(...definitions([
    ["iteration", `${whole(k)} of ${whole(LAST)}`],
    ["pairs", whole(trace.n_atoms[k])],
    ["features", whole(trace.n_features[k])],
    ["loss", number(trace.objective[k], 4)],
    ["gap", number(trace.gap[k])],
  ]));
  $("slider").setAttribute("aria-valuetext", `iteration ${k}, ${counted(trace.n_atoms[k], "pair")}`);
}

let frame = 0; // that is asked for, 0 for none
let networkTimer = 0;

function choose() {
  view.w = path.weightsAfter(view.k);
  view.order = ranked(view.w);
}

function show() {
  frame = 0;
  choose();
  showNow();
  for (const move of cursors) move(view.k);
  showStrongest();
  showTable();
  showActs();
  showItems();
}

function goTo(k) {
  if (Number.isNaN(k)) return;
  view.k = Math.min(Math.max(Math.round(k), 0), LAST);
  showIteration();
  frame ||= requestAnimationFrame(show);
  clearTimeout(networkTimer);
  networkTimer = setTimeout(showNetwork, 150); // the layout waits until the slider rests
}

function showIteration() {
  $("slider").value = view.k;
  $("iteration").value = view.k;
}

function prepareControls() {
  for (const id of ["slider", "iteration"]) $(id).max = LAST;
  showIteration();
  $("slider").addEventListener("input", event => goTo(event.target.valueAsNumber));
  $("iteration").addEventListener("change", event => goTo(event.target.valueAsNumber));
  $("fitted").addEventListener("click", () => goTo(model.n_iter));
  prepareTheme();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // phones resize in height as their bars come and go
    width = innerWidth;
    drawCharts();
    goTo(view.k);
  });
}

function prepareTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => {
    $("theme").textContent = isDark() ? "Light" : "Dark";
  };
  $("theme").setAttribute("aria-label", "Change between dark and light");
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  system.addEventListener("change", label);
  label();
}

choose();
showResult();
prepareTable();
prepareNeighbors();
prepareControls();
showSettings();
drawCharts();
show();
showNetwork();

// For readers with a console, and for tests: numbers of columns, not positions on the page.
window.hdslReport = Object.freeze({
  lastIteration: LAST,
  at: k => {
    const w = path.weightsAfter(k);
    const column = f => data.columns[f];
    return ranked(w).map(n => (
      { i: column(atoms.i[n]), j: column(atoms.j[n]), sign: atoms.sign[n], weight: w[n] }));
  },
  ask: text => {
    $("query").value = text;
    search();
  },
  explain: (a, b, k) => {
    const why = explain(valuesOf(a), valuesOf(b), path.weightsAfter(k));
    const { plain, learned } = why;
    const reasons = why.reasons.map(reason => ({
      names: reason.features.map(f => names[f]),
      learned: reason.learned,
      plain: reason.plain,
    }));
    return { plain, learned, total: why.total, reasons };
  },
});
