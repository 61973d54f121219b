// --- the table of pairs ------------------------------------------------------------------------

const view = { k: model.n_iter, blocks: [], w: null, order: [], sort: counts ? "effect" : "share", up: false, shown: 50 };

// Numbers are wanted from the largest down at first, names from A to Z.
const byName = (title, of) => ({
  title, label: "Feature", up: true,
  compare: (p, q) => names[of[p]].localeCompare(names[of[q]], "en", { numeric: true }),
});
const byWeight = { up: false, compare: (p, q) => view.w[p] - view.w[q] };
const byCount = (label, title, count) => ({
  label, title: `${title}, of ${counted(counts.n_rows, "row")}`, up: false,
  compare: (p, q) => count(p) - count(q),
});
const inRows = of => n => counts.feature[of[n]];

const COLUMNS = [
  { id: "i", ...byName("First feature", atoms.i) },
  { id: "sign", class: "narrow", label: "±", title: "Together or apart", up: false,
    compare: (p, q) => atoms.sign[p] - atoms.sign[q] },
  { id: "j", ...byName("Second feature", atoms.j) },
  { id: "weight", label: "Weight", class: "number extra", ...byWeight },
  { id: "share", label: "Share", class: counts ? "number extra" : "share", ...byWeight },
];
if (counts) {
  const both = n => counts.both[n];
  COLUMNS.push(
    { id: "effect", label: "Effect", class: "share", up: false,
      compare: (p, q) => effect(p, view.w) - effect(q, view.w) },
    { id: "i-rows", class: "number extra",
      ...byCount("First in", "Rows with the first", inRows(atoms.i)) },
    { id: "j-rows", class: "number extra",
      ...byCount("Second in", "Rows with the second", inRows(atoms.j)) },
    { id: "both-rows", class: "number extra", ...byCount("Both in", "Rows with both", both) });
}

function prepareTable() {
  const heads = COLUMNS.map(column => {
    const sort = () => {
      view.up = view.sort === column.id ? !view.up : column.up;
      view.sort = column.id;
      showTable();
    };
    const { id, label, title } = column;
    return h("th", { class: column.class, scope: "col", id: "by-" + id },
      h("button", { type: "button", title, "aria-label": title, onclick: sort }, label));
  });
  $("table").tHead.append(h("tr", {}, ...heads));
  $("weight-note").append(
    "The weight is what a pair adds to the similarity of two items in which the pair has value " +
    `1; it is the pair’s share times the scale ${number(model.scale, 4)}. Shares sum to 100 % at ` +
    "most.",
    counts ? " The effect is what the pair adds to the similarity of two rows, where one has the " +
      "first feature and the other the second, as a root mean square over all pairs of " +
      `${counted(counts.n_rows, "row")}. The last columns tell in how many rows the features ` +
      `occur; pairs with a feature in fewer than ${MIN_ROWS} rows come last.` : "");
  $("search").addEventListener("input", () => { view.shown = 50; showTable(); });
  $("more").addEventListener("click", () => { view.shown += 200; showTable(); });
}

/** The strongest pairs of each sign, with their effect and the rows that have each feature. */
function showStrongest() {
  const { w, order } = view, most = measure(order.map(n => strength(n, w)));
  for (const [id, sign] of [["together", 1], ["apart", -1]]) {
    const list = order.filter(n => atoms.sign[n] === sign && isCommon(n)).slice(0, 8);
    const entries = list.map(n => h("li", {},
      h("span", {}, pairOf(n)), h("span", { class: "percent" }, strengthText(n, w)),
      counts ? h("span", { class: "support" },
        `in ${whole(counts.feature[atoms.i[n]])} and ${whole(counts.feature[atoms.j[n]])} rows`) : "",
      meter(strength(n, w) / most, id)));
    $(id).replaceChildren(...(entries.length ? entries : [h("li", { class: "note" }, "None")]));
  }
}

/** Rows of a table of pairs, with weights of M or of a region. */
function rowsOf(list, w, scale, most) {
  const cells = {
    i: n => [feature(atoms.i[n])],
    sign: n => [signOf(n)],
    j: n => [feature(atoms.j[n])],
    weight: n => [number(scale * w[n])],
    share: n => counts ? [percent(w[n], 2)] : [gauge(percent(w[n], 2), w[n] / most, sideOf(n))],
    effect: n => [gauge(number(effect(n, w, scale)), effect(n, w, scale) / most, sideOf(n))],
    "i-rows": n => [whole(counts.feature[atoms.i[n]])],
    "j-rows": n => [whole(counts.feature[atoms.j[n]])],
    "both-rows": n => [whole(counts.both[n])],
  };
  const cell = n => column => h("td", { class: column.class }, ...cells[column.id](n));
  return list.map(n => h("tr", {}, ...COLUMNS.map(cell(n))));
}

function showTable() {
  const wanted = $("search").value.trim().toLowerCase();
  const has = f => names[f].toLowerCase().includes(wanted);
  const list = view.order.filter(n => !wanted || has(atoms.i[n]) || has(atoms.j[n]));
  const column = COLUMNS.find(({ id }) => id === view.sort), turn = view.up ? 1 : -1;
  const rank = new Map(view.order.map((n, at) => [n, at]));
  const isRank = view.sort === (counts ? "effect" : "share");
  list.sort((p, q) => (isRank ? isCommon(q) - isCommon(p) : 0) ||
    turn * column.compare(p, q) || rank.get(p) - rank.get(q));
  const most = measure(view.order.map(n => strength(n, view.w)));
  const rows = rowsOf(list.slice(0, view.shown), view.w, model.scale, most);
  $("table").tBodies[0].replaceChildren(...rows);
  for (const { id } of COLUMNS) {
    const head = $("by-" + id);
    if (id === view.sort) head.setAttribute("aria-sort", view.up ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
  $("found").textContent =
    `${whole(rows.length)} of ${counted(list.length, "pair")}${wanted ? " found" : ""}`;
  $("more").hidden = list.length <= view.shown;
}
