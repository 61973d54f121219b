// --- one model after another -------------------------------------------------------------------

function showNow() {
  const { k } = view, scored = lastAt(scores.at, k);
  const facts = [
    ["iteration", `${whole(k)} of ${whole(LAST)}`], ["loss", number(trace.objective[k], 4)],
    ["pairs", whole(trace.n_atoms[k])], ["features", whole(trace.n_features[k])],
    ["gap", number(trace.gap[k])],
  ];
  if (scored >= 0) {
    const when = scores.at[scored] < k ? ` (at ${whole(scores.at[scored])})` : "";
    facts.push(["validation score", number(scores.values[scored]) + when]);
  }
  $("now").replaceChildren(...definitions(facts));
  const told = `iteration ${k}, ${counted(trace.n_atoms[k], "pair")}`;
  $("slider").setAttribute("aria-valuetext", told);
}

let frame = 0, settle = 0;

function choose() {
  view.blocks = path.at(view.k);
  view.w = view.blocks[0];
  view.order = ranked(view.w);
}

function show() {
  frame = 0;
  choose();
  showNow();
  for (const move of cursors) move(view.k);
  showStrongest();
  showTable();
  showRegions();
  showItems();
}

function goTo(k) {
  if (Number.isNaN(k)) return;
  view.k = Math.min(Math.max(Math.round(k), 0), LAST);
  $("slider").value = $("iteration").value = view.k;
  frame ||= requestAnimationFrame(show);
  clearTimeout(settle);
  settle = setTimeout(showNetwork, 150); // the layout waits until the slider rests
}

function prepareControls() {
  for (const id of ["slider", "iteration"]) $(id).max = LAST;
  $("slider").value = $("iteration").value = view.k;
  $("slider").addEventListener("input", event => goTo(event.target.valueAsNumber));
  $("iteration").addEventListener("change", event => goTo(event.target.valueAsNumber));
  $("fitted").addEventListener("click", () => goTo(model.n_iter));

  const system = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  const label = () => { $("theme").textContent = isDark() ? "Light" : "Dark"; };
  $("theme").setAttribute("aria-label", "Change between dark and light");
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  system.addEventListener("change", label);
  label();

  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // phones resize in height as their bars come and go
    width = innerWidth;
    drawCharts();
    goTo(view.k);
  });
}

choose();
showResult();
prepareTable();
prepareRegions();
prepareNeighbors();
prepareControls();
showSettings();
drawCharts();
show();
showNetwork();

// For readers with a console, and for tests: numbers of columns, not places on the page.
window.hdslReport = Object.freeze({
  lastIteration: LAST,
  at: (k, block = 0) => {
    const w = path.at(k)[block];
    const column = f => data.columns[f];
    return ranked(w, block ? regions.scale : model.scale).map(n => (
      { i: column(atoms.i[n]), j: column(atoms.j[n]), sign: atoms.sign[n], weight: w[n] }));
  },
  ask: text => { $("query").value = text; ask(); },
  explain: (a, b, k) => {
    const { shared, pairs, plain, learned, local, total } =
      explain(valuesOf(a), valuesOf(b), partsOf(regionOf(a), path.at(k)));
    return { plain, learned, local, total, nShared: shared.length, nPairs: pairs.length };
  },
});
