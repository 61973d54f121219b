"use strict";
(() => {

// --- data: arrays come as base64 with their type -----------------------------------------------

const TYPES = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i1: Int8Array, i2: Int16Array, i4: Int32Array,
  f4: Float32Array, f8: Float64Array,
};

function unpack(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  if (typeof value.bytes === "string") {
    const binary = atob(value.bytes);
    const bytes = new Uint8Array(binary.length);
    for (let n = 0; n < binary.length; n++) bytes[n] = binary.charCodeAt(n);
    return new TYPES[value.type](bytes.buffer);
  }
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, unpack(part)]));
}

const data = unpack(JSON.parse(document.getElementById("data").textContent));
const { model, atoms, steps, corrections, trace, names, counts, items } = data;
const LAST = steps.size.length - 1;
const N_ATOMS = atoms.i.length;

// --- the models of the path, from its steps ----------------------------------------------------

const path = (() => {
  const every = Math.max(50, Math.ceil(LAST / 60));
  const start = new Float64Array(N_ATOMS + 1); // the last is the zero atom
  start[steps.toward[0]] = 1;
  const kept = [start];
  const begin = new Array(LAST + 1); // where the corrections of each iteration begin
  for (let n = corrections.n_iter.length - 1; n >= 0; n--) begin[corrections.n_iter[n]] = n;

  function take(w, k) {
    for (let n = begin[k]; corrections.n_iter[n] === k; n++) {
      w[corrections.atom[n]] = corrections.weight[n];
    }
    const size = steps.size[k], toward = steps.toward[k], away = steps.away[k];
    if (!(size > 0)) return;
    const factor = away < 0 ? 1 - size : toward < 0 ? 1 + size : 1;
    for (let n = 0; n <= N_ATOMS; n++) w[n] *= factor;
    if (away >= 0) w[away] = steps.drop[k] ? 0 : Math.max(w[away] - size, 0);
    if (toward >= 0) w[toward] += size;
    let sum = 0;
    for (let n = 0; n <= N_ATOMS; n++) sum += w[n];
    for (let n = 0; n <= N_ATOMS; n++) w[n] /= sum;
  }

  function at(k) {
    const known = Math.min(Math.floor(k / every), kept.length - 1);
    const w = kept[known].slice();
    for (let n = known * every + 1; n <= k; n++) {
      take(w, n);
      if (n % every === 0 && n / every === kept.length) kept.push(w.slice());
    }
    return w;
  }
  return { at };
})();

// What a pair adds to the similarity of two rows, as a root mean square; by weight without rows.
const MIN_ROWS = 2; // of each feature, or else a pair may be chance
const effect = (n, w) => model.scale * w[n] * counts.size[n];
const strength = counts ? effect : (n, w) => w[n];
const isCommon = n =>
  !counts || Math.min(counts.feature[atoms.i[n]], counts.feature[atoms.j[n]]) >= MIN_ROWS;

/** The atoms in use, the strongest first; those in too few rows come last. */
function ranked(w) {
  const active = [];
  for (let n = 0; n < N_ATOMS; n++) if (w[n] > 0) active.push(n);
  return active.sort((p, q) =>
    isCommon(q) - isCommon(p) || strength(q, w) - strength(p, w) || w[q] - w[p] || p - q);
}

// --- the similarity of two items ---------------------------------------------------------------

function valuesOf(item) {
  const values = new Map();
  for (let n = items.start[item]; n < items.start[item + 1]; n++) {
    values.set(items.feature[n], items.value[n]);
  }
  return values;
}

function explain(x, y, w) {
  const shared = [];
  if (model.prior > 0) {
    for (const [f, value] of x) {
      if (y.has(f)) shared.push({ feature: f, value: model.prior * value * y.get(f) });
    }
  }
  const pairs = [];
  for (let n = 0; n < N_ATOMS; n++) {
    if (!(w[n] > 0)) continue;
    const i = atoms.i[n], j = atoms.j[n], sign = atoms.sign[n];
    const left = (x.get(i) ?? 0) + sign * (x.get(j) ?? 0);
    if (left === 0) continue;
    const right = (y.get(i) ?? 0) + sign * (y.get(j) ?? 0);
    if (right !== 0) pairs.push({ atom: n, value: model.scale * w[n] * left * right });
  }
  const total = parts => parts.reduce((sum, part) => sum + part.value, 0);
  const [plain, learned] = [total(shared), total(pairs)];
  return { shared, pairs, plain, learned, total: plain + learned };
}

// --- words and numbers -------------------------------------------------------------------------

const whole = n => n.toLocaleString("en-US");
const counted = (n, one, many = one + "s") => `${whole(n)} ${n === 1 ? one : many}`;
const percent = (share, digits = 1) => (100 * share).toFixed(digits) + " %";
const withInterval = ({ n_wrong, error, interval: [low, high] }) =>
  `${percent(error, 2)} (${whole(n_wrong)}; ${(100 * low).toFixed(1)} to ${percent(high)})`;

function number(value, digits = 3) {
  if (Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  let text;
  if (size === 0) text = "0";
  else if (size >= 1e6 || size < 1e-3) text = value.toExponential(digits - 1);
  else if (size >= 1000) text = value.toLocaleString("en-US", { maximumFractionDigits: 0 });
  else text = value.toPrecision(digits);
  return text.replace("e+", "e").replaceAll("-", "−");
}

const signed = value => (value > 0 ? "+" : "") + number(value);
const short = (text, n) => [...text].length > n ? [...text].slice(0, n - 1).join("") + "…" : text;
const strengthText = (n, w) => (counts ? number(effect(n, w)) : percent(w[n], 2));
const sideOf = n => (atoms.sign[n] > 0 ? "together" : "apart");

// --- elements: strings only ever become text ---------------------------------------------------

const $ = id => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const h = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const s = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const feature = f => h("span", { class: "feature" }, names[f]);
const signOf = n => h("span", { class: "sign " + sideOf(n) }, atoms.sign[n] > 0 ? "+" : "−");
const pairOf = n =>
  h("span", { class: "pair" }, feature(atoms.i[n]), " ", signOf(n), " ", feature(atoms.j[n]));

/** What bars are measured by: the largest value, or the next where that towers over all others. */
const measure = ([first, next]) => (first > 4 * next ? 1.5 * next : first);

const definitions = entries =>
  entries.map(([term, ...text]) => h("div", {}, h("dt", {}, term), h("dd", {}, ...text)));

/** A bar; one that would be longer than its room fades out at the end. */
function meter(share, side) {
  const kind = share > 1 ? "over" : "";
  const bar = h("span", { class: `meter ${side} ${kind}`, "aria-hidden": "true" });
  bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return bar;
}

const gauge = (text, share, side) =>
  h("span", { class: "gauge" }, h("span", {}, text), h("span", {}, meter(share, side)));

// --- what was learned: of the fitted model -----------------------------------------------------

const ENDS = {
  optimal: "The run ended at the optimum, certified by its duality gap.",
  gap_not_certified: "The run ended with a duality gap below its tolerance, by a search that is " +
    "not exhaustive: near the optimum, but not certified.",
  no_violation: "The run ended because every triplet was judged right with a margin to spare.",
  max_iter: "The run ended at its largest number of iterations.",
  no_change: "The run ended because the validation score no longer improved.",
  callback: "The run was ended by a callback.",
  interrupted: "The run was interrupted; this is the model up to there.",
  stalled: "The run ended because no step led further down.",
  at: "This is an earlier model of a longer path.",
};

function showLearned() {
  document.title = data.title;
  $("title").append(data.title);
  const w = path.at(model.n_iter), order = ranked(w);
  const used = new Set(order.flatMap(n => [atoms.i[n], atoms.j[n]]));
  const plus = order.filter(n => atoms.sign[n] > 0), minus = order.filter(n => atoms.sign[n] < 0);
  const sentence = [
    `From ${counted(model.n_triplets, "triplet")}, the model learned `,
    `${counted(order.length, "pair")} of features: ${whole(plus.length)} that count together and `,
    `${whole(minus.length)} that are set apart`,
    model.prior > 0 ? ", on top of the plain dot product. " : ". ",
  ];
  if (plus.length) sentence.push("Strongest together: ", pairOf(plus[0]), ". ");
  if (minus.length) sentence.push("Strongest apart: ", pairOf(minus[0]), ".");
  $("sentence").append(...sentence);

  const { errors } = data, score = trace.validation_score[model.n_iter];
  const facts = [
    ["Pairs in use", whole(order.length), h("small", {}, `of ${counted(used.size, "feature")}`)],
    ["Features in all", whole(model.n_features),
      h("small", {}, percent(used.size / model.n_features) + " in use")],
    ["Iterations", whole(model.n_iter),
      h("small", {}, LAST > model.n_iter ? `the best of ${whole(LAST)}` : "the whole path")],
    ["Mean loss", number(trace.objective[model.n_iter]),
      h("small", {}, `${number(trace.objective[0])} at the start`)],
  ];
  if (!Number.isNaN(score)) {
    facts.push(["Validation score", number(score), h("small", {}, "the model was chosen by it")]);
  }
  if (errors) {
    facts.push([`${errors.n_neighbors}-NN error`, percent(errors.after.error),
      h("small", {}, `${percent(errors.before.error)} by cosine`)]);
  }
  $("facts").append(...definitions(facts));
  $("measured").append(errors
    ? `The error is the share of ${counted(errors.n_test, "test row")} whose class the vote of ` +
      `their ${errors.n_neighbors} most similar among ${counted(errors.n_rows, "other row")} ` +
      `gets wrong: ${withInterval(errors.before)} by cosine, ${withInterval(errors.after)} by ` +
      `the learned cosine, with ${percent(errors.confidence, 0)} intervals. ${errors.sentence}`
    : "No error on test rows was measured: the report was written without test rows and labels.");
  for (const [id, list] of [["together", plus], ["apart", minus]]) {
    const most = measure(order.map(n => strength(n, w)));
    const entries = list.filter(isCommon).slice(0, 8).map(n => h("li", {},
      h("span", {}, pairOf(n)), h("span", { class: "percent" }, strengthText(n, w)),
      meter(strength(n, w) / most, id)));
    $(id).append(...(entries.length ? entries : [h("li", { class: "note" }, "None")]));
  }
}

// --- charts ------------------------------------------------------------------------------------

const CHARTS = [
  { title: "Mean loss", unit: "of the triplets", series: [{ values: trace.objective }] },
  { title: "Duality gap", unit: "logarithmic", log: true, series: [{ values: trace.gap }] },
  { title: "Validation score", unit: "the larger the better", points: true,
    series: [{ values: trace.validation_score }] },
  { title: "In use", unit: "number of", series: [
    { name: "features", values: trace.n_features }, { name: "pairs", values: trace.n_atoms }] },
];

const drawable = log => v => !Number.isNaN(v) && (!log || v > 0);

function ticks(low, high, log) {
  if (log) {
    const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9);
    const step = Math.max(1, Math.ceil((to - from) / 4)), found = [];
    for (let n = from; n <= to; n += step) found.push(10 ** n);
    return found;
  }
  const rough = (high - low) / 4 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(m => m * power >= rough) * power, found = [];
  const from = Math.ceil(low / step - 1e-9), to = Math.floor(high / step + 1e-9);
  for (let n = from; n <= to; n++) found.push(n * step + 0); // no -0
  return found;
}

function tick(value) {
  const size = Math.abs(value), plain = size === 0 || (size >= 1e-3 && size < 1e5);
  return plain ? (+value.toPrecision(3)).toLocaleString("en-US") : number(value, 1);
}

/** Draw one chart into its figure; return what moves its cursor. */
function chart(options, figure) {
  const { series, log } = options, good = drawable(log);
  let low = Infinity, high = -Infinity;
  for (const { values } of series) {
    for (const v of values) if (good(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  }
  if (options.series.length > 1) low = 0;
  const pad = 0.05 * (high - low || Math.abs(high) || 1);
  if (log) [low, high] = [low / 1.2, high * 1.2];
  else [low, high] = [low === 0 ? 0 : low - pad, high + pad];

  const W = Math.max(240, figure.clientWidth), H = 190;
  const box = { left: 52, right: W - 14, top: 10, bottom: H - 24 };
  const x = k => box.left + (LAST ? k / LAST : 0) * (box.right - box.left);
  const part = log ? v => Math.log(v / low) / Math.log(high / low) : v => (v - low) / (high - low);
  const y = v => box.bottom - part(v) * (box.bottom - box.top);
  const svg = s("svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: "img" });
  figure.append(svg);
  for (const t of ticks(low, high, log)) {
    svg.append(s("path", { class: "grid", d: `M${box.left} ${y(t)}H${box.right}` }),
      s("text", { x: box.left - 7, y: y(t) + 4, "text-anchor": "end" }, tick(t)));
  }
  const marks = ticks(0, LAST || 1, false).filter(Number.isInteger);
  for (const t of marks.filter(t => t <= LAST)) {
    svg.append(s("text", { x: x(t), y: H - 7, "text-anchor": "middle" }, whole(t)));
  }
  const stride = options.points ? 1 : Math.max(1, Math.floor(LAST / 1500));
  series.forEach(({ name, values }, n) => {
    let d = "", pen = "M";
    const points = [];
    for (let k = 0; k <= LAST; k = k < LAST ? Math.min(k + stride, LAST) : k + 1) {
      if (good(values[k])) {
        points.push([x(k), y(values[k])]);
        d += `${pen}${x(k).toFixed(1)} ${y(values[k]).toFixed(1)}`;
        pen = "L";
      } else if (!options.points) pen = "M";
    }
    svg.append(s("path", { class: "curve " + "ab"[n], d }));
    if (options.points || points.length < 3) {
      svg.append(...points.map(([cx, cy]) => s("circle", { class: "point", cx, cy, r: 2.5 })));
    }
    if (name) {
      const end = y(values[LAST]), other = y(series[1 - n].values[LAST]);
      svg.append(s("text", { class: "ab"[n], x: box.right - 4, "text-anchor": "end",
        y: end <= other - (n ? 0 : 1e-9) ? end - 8 : Math.min(end + 18, box.bottom - 4) }, name));
    }
  });
  const line = s("path", { class: "cursor" });
  const dots = series.map((_, n) => s("circle", { class: "dot " + "ab"[n], r: 4.5 }));
  svg.append(line, ...dots);
  const ends = series.map(({ name, values }) => {
    const seen = [...values].filter(good);
    return `${name ? name + " " : ""}from ${number(seen[0])} to ${number(seen.at(-1))}`;
  });
  svg.setAttribute("aria-label", `${options.title} along the path, ${ends.join(", ")}`);
  const pick = event => {
    const inside = (event.clientX - svg.getBoundingClientRect().left) * (W / svg.clientWidth || 1);
    goTo(Math.round((inside - box.left) / (box.right - box.left) * LAST));
  };
  svg.addEventListener("pointerdown", pick);
  svg.addEventListener("pointermove", event => { if (event.buttons & 1) pick(event); });
  return k => {
    line.setAttribute("d", `M${x(k)} ${box.top}V${box.bottom}`);
    series.forEach(({ values }, n) => {
      const last = options.points ? lastScored(k) : k, there = last >= 0 && good(values[last]);
      dots[n].setAttribute("visibility", there ? "visible" : "hidden");
      if (there) fill(dots[n], { cx: x(last), cy: y(values[last]) }, []);
    });
  };
}

function lastScored(k) {
  while (k >= 0 && Number.isNaN(trace.validation_score[k])) k--;
  return k;
}

let cursors = [];

function drawCharts() {
  const there = CHARTS.filter(({ series, log }) => series[0].values.some(drawable(log)));
  const figures = there.map(({ title, unit }) => h("figure", { class: "chart" },
    h("figcaption", {}, title + " ", h("span", {}, unit))));
  $("charts").replaceChildren(...figures); // all at once: their widths depend on each other
  cursors = there.map((options, n) => chart(options, figures[n]));
}

// --- the table of pairs ------------------------------------------------------------------------

const view = { k: model.n_iter, w: null, order: [], sort: counts ? "effect" : "share", up: false, shown: 50 };

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
    { id: "both-rows", class: "number", ...byCount("Both in", "Rows with both", both) });
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
  const cells = {
    i: n => [feature(atoms.i[n])],
    sign: n => [signOf(n)],
    j: n => [feature(atoms.j[n])],
    weight: n => [number(model.scale * view.w[n])],
    share: n => counts ? [percent(view.w[n], 2)]
      : [gauge(percent(view.w[n], 2), view.w[n] / most, sideOf(n))],
    effect: n => [gauge(number(effect(n, view.w)), effect(n, view.w) / most, sideOf(n))],
    "i-rows": n => [whole(counts.feature[atoms.i[n]])],
    "j-rows": n => [whole(counts.feature[atoms.j[n]])],
    "both-rows": n => [whole(counts.both[n])],
  };
  const cell = n => column => h("td", { class: column.class }, ...cells[column.id](n));
  const rows = list.slice(0, view.shown).map(n => h("tr", {}, ...COLUMNS.map(cell(n))));
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

// --- the network of the strongest pairs --------------------------------------------------------

const pen = document.createElement("canvas").getContext("2d");

/** The parts of a graph that no edge joins, each with its strongest edge first. */
function components(edges) {
  const found = [], seen = new Set();
  for (const { a } of edges) {
    if (seen.has(a)) continue;
    const nodes = [a];
    seen.add(a);
    for (const node of nodes) for (const { a: p, b: q } of node.edges) for (const next of [p, q]) {
      if (!seen.has(next)) { seen.add(next); nodes.push(next); }
    }
    found.push(nodes);
  }
  return found;
}

const bond = n => (atoms.sign[n] > 0 ? "together with" : "apart from");

const ROW = 34; // height of a label and the space under it

/** Place the boxes of one component: springs along edges, repulsion, then no overlaps. */
function spread(nodes, W) {
  if (nodes.length === 2) {
    const [a, b] = nodes, beside = a.w + b.w + 40 <= W;
    a.x = a.w / 2; b.x = beside ? a.w + 40 + b.w / 2 : b.w / 2;
    a.y = 12; b.y = beside ? 12 : 12 + 2 * ROW;
    return;
  }
  const ideal = 85, edges = [...new Set(nodes.flatMap(node => node.edges))], rounds = 300;
  nodes.forEach((node, n) => { // a sunflower: the same every time
    const radius = 0.8 * ideal * Math.sqrt(n), angle = 2.399963 * n;
    node.x = radius * Math.cos(angle);
    node.y = radius * Math.sin(angle);
  });
  const each = act => nodes.forEach((a, n) => nodes.slice(n + 1).forEach(b => act(a, b)));
  for (let round = 0; round < rounds; round++) {
    const heat = 60 * (1 - round / rounds) ** 2 + 0.5;
    for (const node of nodes) node.dx = node.dy = 0;
    const push = (a, b, dx, dy, force) => {
      a.dx += dx * force; a.dy += dy * force;
      b.dx -= dx * force; b.dy -= dy * force;
    };
    each((a, b) => {
      const dx = a.x - b.x, dy = a.y - b.y;
      push(a, b, dx, dy, ideal * ideal / Math.max(dx * dx + dy * dy, 100));
    });
    for (const { a, b } of edges) {
      const dx = a.x - b.x, dy = a.y - b.y;
      push(a, b, dx, dy, -Math.hypot(dx, dy) / ideal);
    }
    for (const node of nodes) {
      const length = Math.hypot(node.dx, node.dy) || 1, step = Math.min(length, heat) / length;
      node.x += node.dx * step;
      node.y += node.dy * step;
    }
  }
  const left = () => Math.min(...nodes.map(node => node.x - node.w / 2));
  const width = Math.max(...nodes.map(node => node.x + node.w / 2)) - left();
  for (const node of nodes) { node.x *= Math.min(1, W / width); node.y *= 0.62; }
  const from = left();
  for (const node of nodes) node.x -= from;
  for (let round = 0, moved = true; moved && round < 400; round++) {
    moved = false;
    each((a, b) => {
      const overX = (a.w + b.w) / 2 + 10 - Math.abs(a.x - b.x), overY = ROW - Math.abs(a.y - b.y);
      if (overX <= 0.01 || overY <= 0.01) return;
      moved = true;
      const [axis, over] = overY < overX ? ["y", overY] : ["x", overX];
      const by = (a[axis] < b[axis] ? -1 : 1) * over / 2;
      a[axis] += by;
      b[axis] -= by;
    });
    for (const node of nodes) node.x = Math.max(Math.min(node.x, W - node.w / 2), node.w / 2);
  }
}

/** Place all components side by side, the largest first, each as high up as there is room. */
function layout(edges, W) {
  const blocks = components(edges).map(nodes => {
    spread(nodes, W);
    const xs = nodes.flatMap(({ x, w }) => [x - w / 2, x + w / 2]), ys = nodes.map(({ y }) => y);
    const x = Math.min(...xs), y = Math.min(...ys) - 12;
    return { nodes, x, y, w: Math.min(Math.max(...xs) - x, W), h: Math.max(...ys) + 12 - y };
  });
  blocks.sort((p, q) => q.h - p.h); // stable: equals stay in the order of their strength
  const unit = 4, filled = new Array(Math.floor(W / unit)).fill(0);
  for (const block of blocks) {
    const span = Math.min(Math.ceil((block.w + 26) / unit), filled.length);
    let best = { top: Infinity };
    for (let at = 0; at + span <= filled.length; at++) {
      const top = Math.max(...filled.slice(at, at + span));
      if (top < best.top) best = { at, top };
    }
    filled.fill(best.top + block.h + 18, best.at, best.at + span);
    for (const node of block.nodes) {
      node.x += best.at * unit - block.x;
      node.y += best.top - block.y;
    }
  }
  return Math.max(...filled);
}

function showNetwork() {
  choose(); // a page out of sight gets no frames
  const holder = $("graph"), W = Math.max(280, holder.clientWidth);
  const limit = W < 600 ? 24 : 60, list = view.order.filter(isCommon).slice(0, limit);
  const inUse = new Map();
  pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  const nodeOf = f => {
    if (!inUse.has(f)) {
      const label = short(names[f], 24);
      inUse.set(f, { f, label, w: pen.measureText(label).width + 16, edges: [] });
    }
    return inUse.get(f);
  };
  const edges = list.map(n => ({ n, a: nodeOf(atoms.i[n]), b: nodeOf(atoms.j[n]) }));
  for (const edge of edges) { edge.a.edges.push(edge); edge.b.edges.push(edge); }
  const nodes = [...inUse.values()];
  for (const node of nodes) node.w = Math.min(node.w, W - 8);
  const margin = 4, H = Math.ceil(layout(edges, W - 2 * margin)) + margin;
  for (const node of nodes) { node.x += margin; node.y += margin; }

  const svg = s("svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: "group",
    "aria-label": `Network of ${counted(nodes.length, "feature")}, by arrow keys` });
  const under = s("g", { class: "edges" });
  for (const edge of edges) {
    const { n, a, b } = edge;
    const thickness = 1.5 + 6 * Math.sqrt(strength(n, view.w) / strength(list[0], view.w) || 0);
    const d = `M${a.x.toFixed(1)} ${a.y.toFixed(1)}L${b.x.toFixed(1)} ${b.y.toFixed(1)}`;
    edge.line = s("path", { class: "edge " + sideOf(n), d, "stroke-width": thickness.toFixed(2) });
    under.append(edge.line);
  }
  svg.append(under);
  const clear = () => {
    svg.classList.remove("choosing");
    for (const lit of svg.querySelectorAll(".lit")) lit.classList.remove("lit");
  };
  const tell = node => {
    clear();
    svg.classList.add("choosing");
    node.group.classList.add("lit");
    for (const { a, b, line } of node.edges) {
      for (const lit of [a.group, b.group, line]) lit.classList.add("lit");
    }
    $("node").replaceChildren(feature(node.f), ": ", ...node.edges.flatMap(({ n, a, b }, nth) => [
      `${nth ? "; " : ""}${bond(n)} `, feature(a === node ? b.f : a.f), ` ${strengthText(n, view.w)}`]));
  };
  const find = node => {
    $("search").value = names[node.f];
    $("search").dispatchEvent(new Event("input"));
    $("search").focus();
  };
  nodes.forEach((node, nth) => {
    const partners = node.edges.map(({ n, a, b }) =>
      `${bond(n)} ${names[a === node ? b.f : a.f]}`);
    const press = event => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      if (!by) { find(node); return; }
      const next = nodes[(nth + by + nodes.length) % nodes.length].group;
      node.group.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    };
    node.group = s("g", {
      class: "vertex", role: "button", tabindex: nth ? -1 : 0,
      "aria-label": `${names[node.f]}: ${partners.join(", ")}`,
      transform: `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})`,
      onpointerenter: () => tell(node), onpointerleave: clear, onfocus: () => tell(node),
      onblur: clear, onclick: () => find(node), onkeydown: press,
    });
    const box = { x: -node.w / 2, y: -12, width: node.w, height: 24, rx: 12 };
    node.group.append(s("rect", box), s("text", {}, node.label));
    svg.append(node.group);
  });
  holder.replaceChildren(svg);
  const all = counted(view.order.length, "pair");
  const which = list.length < view.order.length ? `The ${list.length} strongest of ${all}` : all;
  $("network-note").textContent = `${which}; the wider a line, the more ${counts ? "effect" : "weight"}.`;
}

// --- two items ---------------------------------------------------------------------------------

const nameOf = item => {
  const label = items.labels ? `, ${items.labels[item]}` : "";
  return `Row ${items.rows[item]}${label}`;
};

/** The features of an item, the largest values first. */
const strongest = item => [...valuesOf(item)].sort((p, q) => Math.abs(q[1]) - Math.abs(p[1]));

function snippet(item, n) {
  const text = items.texts ? items.texts[item].replace(/\s+/g, " ").trim()
    : strongest(item).slice(0, 12).map(([f]) => names[f]).join(", ");
  return short(text, n);
}

function prepareItems() {
  if (!items || items.rows.length < 2) {
    $("items-note").append("The report was written without rows to compare.");
    $("comparison").hidden = true;
    return;
  }
  $("items-note").append(
    `Choose two of ${counted(items.rows.length, "row")}`,
    items.rows.length < counts.n_rows ? `, spread evenly over ${whole(counts.n_rows)}` : "",
    model.has_unit_rows ? ", which are compared at unit length" : "",
    ". Their similarity is the sum of the parts below",
    model.prior > 0 ? ", the plain dot product among them" : "", "; it follows the slider too.");
  for (const id of ["first", "second"]) {
    $(id).append(...Array.from(items.rows, (_, item) =>
      h("option", { value: item }, `${nameOf(item)}: ${snippet(item, 70)}`)));
    $(id).addEventListener("change", () => { view.allParts = false; showItems(); });
  }
  // To begin with, two that learning brought together: the closest, and far down by dot product.
  const alike = (p, q) => !items.labels || items.labels[p] === items.labels[q];
  let [best, gain] = [[0, closestTo(0)[0].item], 0];
  items.rows.forEach((_, first) => {
    const { item, rank } = closestTo(first)[0];
    if (rank > gain && alike(first, item)) [best, gain] = [[first, item], rank];
  });
  [$("first").value, $("second").value] = best;
  $("more-parts").addEventListener("click", () => { view.allParts = true; showItems(); });
  const heads = { Part: "", "In the first": "extra", "In the second": "extra", Adds: "effect" };
  $("parts").tHead.append(h("tr", {}, ...Object.entries(heads).map(([label, kind]) =>
    h("th", { scope: "col", class: kind }, label))));
}

/** Prior·x + Mx: dot products with it are similarities. */
function rewritten(x, w) {
  const q = new Map();
  const add = (f, value) => q.set(f, (q.get(f) ?? 0) + value);
  for (const [f, value] of x) add(f, model.prior * value);
  for (let n = 0; n < N_ATOMS; n++) {
    if (!(w[n] > 0)) continue;
    const i = atoms.i[n], j = atoms.j[n], sign = atoms.sign[n];
    const part = model.scale * w[n] * ((x.get(i) ?? 0) + sign * (x.get(j) ?? 0));
    if (part !== 0) { add(i, part); add(j, sign * part); }
  }
  return q;
}

/** The other items, the most similar first, with their rank by plain dot product. */
function closestTo(first) {
  const x = valuesOf(first), q = rewritten(x, view.w), found = [];
  items.rows.forEach((_, item) => {
    if (item === first) return;
    let plain = 0, score = 0;
    for (let n = items.start[item]; n < items.start[item + 1]; n++) {
      plain += items.value[n] * (x.get(items.feature[n]) ?? 0);
      score += items.value[n] * (q.get(items.feature[n]) ?? 0);
    }
    found.push({ item, plain, score });
  });
  found.sort((p, q) => q.plain - p.plain).forEach((entry, n) => { entry.rank = n + 1; });
  return found.sort((p, q) => q.score - p.score || p.item - q.item);
}

function showText(holder, item, shown) {
  if (!items.texts) {
    holder.replaceChildren(...strongest(item).slice(0, 80).flatMap(([f, value]) => {
      const word = h(shown.has(names[f].toLowerCase()) ? "mark" : "span", {}, names[f]);
      return [word, ` ${number(value)}  `];
    }));
    return;
  }
  // Words that are the name of a feature in the sum are marked; the rest stays as it is.
  const pieces = items.texts[item].split(/([\p{L}\p{N}_]+)/u);
  holder.replaceChildren(...pieces.map(piece =>
    shown.has(piece.toLowerCase()) ? h("mark", {}, piece) : piece));
}

function showItems() {
  if ($("comparison").hidden) return;
  const first = +$("first").value, second = +$("second").value;
  const x = valuesOf(first), y = valuesOf(second), why = explain(x, y, view.w);
  const terms = [`The similarity is `, h("b", { id: "total" }, number(why.total, 4)), " = "];
  if (model.prior > 0) terms.push(h("b", {}, number(why.plain, 4)), " plain dot product + ");
  terms.push(h("b", {}, number(why.learned, 4)),
    ` from ${counted(why.pairs.length, "learned pair")}.`);
  $("sum").replaceChildren(...terms);
  showParts(why, x, y);

  const features = why.shared.map(part => part.feature);
  for (const { atom } of why.pairs) features.push(atoms.i[atom], atoms.j[atom]);
  const shown = new Set(features.map(f => names[f].toLowerCase()));
  showText($("first-text"), first, shown);
  showText($("second-text"), second, shown);

  $("closest").replaceChildren(...closestTo(first).slice(0, 6).map(({ item, score, rank }, nth) => {
    const choose = () => {
      $("second").value = item;
      view.allParts = false;
      showItems();
      $("closest").children[nth].firstElementChild.focus();
    };
    const place = ` · number ${whole(rank)} by dot product · `;
    return h("li", {}, h("button",
      { type: "button", "aria-pressed": String(item === second), onclick: choose },
      h("b", {}, number(score, 4)), place, `${nameOf(item)}: ${snippet(item, 90)}`));
  }));
}

function showParts(why, x, y) {
  const parts = why.pairs.map(({ atom, value }) => {
    const has = values => [atoms.i[atom], atoms.j[atom]].filter(f => values.has(f))
      .map(f => `${names[f]} ${number(values.get(f))}`).join(", ");
    return { value, what: [pairOf(atom)], left: has(x), right: has(y) };
  });
  if (why.shared.length) {
    why.shared.sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
    const some = why.shared.slice(0, 6).flatMap(({ feature: f }, n) => [n ? ", " : "", feature(f)]);
    const rest = why.shared.length - 6;
    parts.push({
      value: why.plain, what: ["Plain dot product: ", ...some, rest > 0 ? ` and ${rest} more` : ""],
      left: counted(x.size, "feature"), right: counted(y.size, "feature"),
    });
  }
  parts.sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
  const most = parts.length ? Math.abs(parts[0].value) : 1;
  const rows = (view.allParts ? parts : parts.slice(0, 12)).map(({ value, what, left, right }) => {
    const bar = gauge(signed(value), Math.abs(value) / most, value > 0 ? "together" : "apart");
    return h("tr", {}, h("td", {}, ...what), h("td", { class: "extra" }, left),
      h("td", { class: "extra" }, right), h("td", { class: "effect" }, bar));
  });
  const none = h("tr", {}, h("td", { colspan: 4 }, "The two have nothing in common that counts."));
  $("parts").tBodies[0].replaceChildren(...(rows.length ? rows : [none]));
  $("more-parts").hidden = rows.length === parts.length;
  $("more-parts").textContent = `Show all ${parts.length} parts`;
}

// --- settings ----------------------------------------------------------------------------------

function showSettings() {
  const gap = trace.gap[model.n_iter];
  const how = model.gap_is_exact ? "found by an exact search" : "by a search that is not exhaustive";
  const length = counted(LAST, "iteration");
  $("status").append([
    ENDS[model.status] ?? `The run ended with status ${model.status}.`,
    LAST > model.n_iter ? `The fitted model is the one after ${whole(model.n_iter)} of ${length}.` : "",
    Number.isNaN(gap) ? "" : `Its duality gap is ${number(gap)}, ${how}.`,
    `The scale is ${number(model.scale, 4)}, and the prior, the weight of the plain dot product, is`,
    `${number(model.prior, 4)}.`,
  ].filter(part => part).join(" "));
  for (const [id, isDefault] of [["changed", false], ["defaults", true]]) {
    const some = data.parameters.filter(parameter => parameter[2] === isDefault);
    $(id).append(...definitions(some.map(([name, value]) => [name, value])));
  }
  $("colophon").append(`Written by hdsl ${data.version}. `,
    "This page is complete: it loads nothing and sends nothing.");
}

// --- one model after another -------------------------------------------------------------------

function showNow() {
  const { k } = view, scored = lastScored(k);
  const facts = [
    ["iteration", `${whole(k)} of ${whole(LAST)}`], ["loss", number(trace.objective[k], 4)],
    ["pairs", whole(trace.n_atoms[k])], ["features", whole(trace.n_features[k])],
    ["gap", number(trace.gap[k])],
  ];
  if (scored >= 0) {
    const when = scored < k ? ` (at ${whole(scored)})` : "";
    facts.push(["validation score", number(trace.validation_score[scored]) + when]);
  }
  $("now").replaceChildren(...definitions(facts));
  const told = `iteration ${k}, ${counted(trace.n_atoms[k], "pair")}`;
  $("slider").setAttribute("aria-valuetext", told);
}

let frame = 0, settle = 0;

function choose() {
  view.w = path.at(view.k);
  view.order = ranked(view.w);
}

function show() {
  frame = 0;
  choose();
  showNow();
  for (const move of cursors) move(view.k);
  showTable();
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
showLearned();
prepareTable();
prepareItems();
prepareControls();
showSettings();
drawCharts();
show();
showNetwork();

// For readers with a console, and for tests: numbers of columns, not places on the page.
window.hdslReport = Object.freeze({
  lastIteration: LAST,
  at: k => {
    const w = path.at(k);
    const column = f => data.columns[f];
    return ranked(w).map(n => (
      { i: column(atoms.i[n]), j: column(atoms.j[n]), sign: atoms.sign[n], weight: w[n] }));
  },
  explain: (a, b, k) => {
    const { shared, pairs, plain, learned, total } = explain(valuesOf(a), valuesOf(b), path.at(k));
    return { plain, learned, total, nShared: shared.length, nPairs: pairs.length };
  },
});
})();
