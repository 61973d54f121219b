// --- the table of pairs ------------------------------------------------------------------------

const view = {
  k: model.n_iter,
  w: null,
  order: [],
  sort: counts ? "effect" : "share",
  up: false,
  shown: 50,
  pair: null, // the one whose actions are shown
};

// Numbers are wanted from the largest down at first, names from A to Z.
const byName = (title, ends) => ({
  title,
  label: "Feature",
  up: true,
  compare: (p, q) => names[ends[p]].localeCompare(names[ends[q]], "en", { numeric: true }),
});
const byWeight = { up: false, compare: (p, q) => view.w[p] - view.w[q] };
const byCount = (label, title, count) => ({
  label,
  title: `${title}, of ${counted(counts.n_rows, "row")}`,
  class: "number extra",
  up: false,
  compare: (p, q) => count(p) - count(q),
});
const nRowsOf = ends => n => counts.feature[ends[n]];

const COLUMNS = [
  { id: "i", ...byName("First feature", atoms.i) },
  {
    id: "sign",
    class: "narrow",
    label: "±",
    title: "Together or apart",
    up: false,
    compare: (p, q) => atoms.sign[p] - atoms.sign[q],
  },
  { id: "j", ...byName("Second feature", atoms.j) },
  { id: "weight", label: "Weight", class: "number extra", ...byWeight },
  { id: "share", label: "Share", class: counts ? "number extra" : "share", ...byWeight },
];
if (counts) {
  COLUMNS.push(
    {
      id: "effect",
      label: "Effect",
      class: "share",
      up: false,
      compare: (p, q) => effect(p, view.w) - effect(q, view.w),
    },
    { id: "i-rows", ...byCount("First in", "Rows with the first", nRowsOf(atoms.i)) },
    { id: "j-rows", ...byCount("Second in", "Rows with the second", nRowsOf(atoms.j)) },
    { id: "both-rows", ...byCount("Both in", "Rows with both", n => counts.both[n]) });
}

function prepareTable() {
  const heads = COLUMNS.map(({ id, label, title, class: kind }) => {
    const button = h("button",
      { type: "button", title, "aria-label": title, onclick: () => sortBy(id) }, label);
    return h("th", { class: kind, scope: "col", id: "by-" + id }, button);
  });
  $("table").tHead.append(h("tr", {}, ...heads));
  $("weight-note").append(
    "The weight is what a pair adds to the similarity of two items in which the pair has value " +
    `1; it is the pair’s share times the scale ${number(model.scale, 4)}. Shares sum to 100 % at ` +
    "most.",
    counts ? effectNote() : "");
  $("search").addEventListener("input", () => {
    view.shown = 50;
    showTable();
  });
  $("more").addEventListener("click", () => {
    view.shown += 200;
    showTable();
  });
}

const effectNote = () =>
  " The effect is what the pair adds to the similarity of two rows, where one has the " +
  "first feature and the other the second, as a root mean square over all pairs of " +
  `${counted(counts.n_rows, "row")}, and less where few rows have the rarer feature. The last ` +
  `columns tell in how many rows the features occur; pairs with a feature in fewer than ${FEW} ` +
  "rows come last.";

/** Sort by a column; by the same one again, the other way round. */
function sortBy(id) {
  const column = COLUMNS.find(column => column.id === id);
  view.up = view.sort === id ? !view.up : column.up;
  view.sort = id;
  showTable();
}

/** The strongest pairs of each sign, with their effect and the rows that have each feature. */
function showStrongest() {
  const common = view.order.filter(isCommon);
  const ofWords = common.filter(n => !hasClass(n));
  const longest = measure(ofWords.map(n => strength(n, view.w)));
  for (const [id, sign] of [["together", 1], ["apart", -1]]) {
    const pairs = ofWords.filter(n => atoms.sign[n] === sign).slice(0, 8);
    const entries = pairs.map(n => strongEntry(n, id, longest));
    if (!entries.length) entries.push(h("li", { class: "note" }, "None"));
    $(id).replaceChildren(...entries);
  }
  const classed = common.filter(hasClass).slice(0, 8);
  $("of-classes").hidden = !classed.length;
  $("classed").replaceChildren(...classed.map(n => strongEntry(n, sideOf(n), longest)));
}

function strongEntry(n, side, longest) {
  const entry = h("li", {},
    actsButton(n, pairOf(n)), h("span", { class: "percent" }, strengthText(n, view.w)));
  if (counts) {
    const nFirst = whole(counts.feature[atoms.i[n]]);
    const nSecond = whole(counts.feature[atoms.j[n]]);
    entry.append(h("span", { class: "support" }, `in ${nFirst} and ${nSecond} rows`));
  }
  entry.append(meter(strength(n, view.w) / longest, side));
  return entry;
}

// --- where a pair acts, and how to take it away ----------------------------------------------------

const N_ACTS = 5;
const N_HOLDERS = 30;

/** A pair that shows where it acts; in the long table Tab passes it by. */
const actsButton = (n, content, tabindex) => h("button", {
  type: "button",
  class: "acts",
  tabindex,
  title: "Where it acts, and how to take it away",
  onclick: () => {
    view.pair = n;
    showActs();
    $("acts").scrollIntoView({ block: "nearest" });
  },
}, content);

/** The items of the page that have a feature, those of the largest values first. */
function holders(f) {
  const holding = allItems.map(item => ({ item, value: valuesOf(item).get(f) ?? 0 }));
  return holding.filter(({ value }) => value).sort((p, q) => Math.abs(q.value) - Math.abs(p.value))
    .slice(0, N_HOLDERS);
}

/** The two items that a pair of features changes most, again and again with others. */
function actsOf(n) {
  const size = atoms.sign[n] * model.scale * view.w[n];
  const acts = holders(atoms.i[n]).flatMap(x => holders(atoms.j[n])
    .filter(y => y.item !== x.item)
    .map(y => ({ x: x.item, y: y.item, value: size * x.value * y.value })));
  acts.sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
  const seen = new Set();
  return acts.filter(({ x, y }) => {
    const isNew = !seen.has(x) && !seen.has(y);
    seen.add(x).add(y);
    return isNew;
  }).slice(0, N_ACTS);
}

/** A text as one word of a shell. */
const quoted = text => `'${text.replaceAll("'", "'\\''")}'`;

function showActs() {
  const n = view.pair;
  $("acts").hidden = n === null;
  if (n === null) return;
  const acts = items ? actsOf(n) : [];
  const entries = acts.map(({ x, y, value }) => h("li", {},
    h("b", {}, signed(value)), " ", titleOf(x), h("br"), titleOf(y)));
  if (!entries.length) entries.push(h("li", { class: "note" }, "No two items of this page have it."));
  const command =
    `hdsl forget MODEL --pair ${quoted(`${names[atoms.i[n]]} ~ ${names[atoms.j[n]]}`)}`;
  const button = h("button", { type: "button", onclick: () => copyText(command, button) }, "Copy");
  $("acts").replaceChildren(
    h("h3", {}, "Where ", pairOf(n), " acts"),
    h("ul", {}, ...entries),
    h("p", {}, "To take it away: ", h("code", {}, command), " ", button,
      h("span", { class: "note" }, " – or in Python ", h("code", {}, "model.without(…)"), ".")));
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it, and copy by the keyboard";
  }
}

/** The content of a cell of the table, by the id of its column. */
const CELLS = {
  i: n => feature(atoms.i[n]),
  sign: n => actsButton(n, signOf(n), -1),
  j: n => feature(atoms.j[n]),
  weight: n => number(model.scale * view.w[n]),
  share: (n, longest) => {
    const text = percent(view.w[n], 2);
    return counts ? text : gauge(text, view.w[n] / longest, sideOf(n));
  },
  effect: (n, longest) => {
    const value = effect(n, view.w);
    return gauge(number(value), value / longest, sideOf(n));
  },
  "i-rows": n => whole(counts.feature[atoms.i[n]]),
  "j-rows": n => whole(counts.feature[atoms.j[n]]),
  "both-rows": n => whole(counts.both[n]),
};

function tableRow(n, longest) {
  const cells = COLUMNS.map(({ id, class: kind }) =>
    h("td", { class: kind }, CELLS[id](n, longest)));
  return h("tr", {}, ...cells);
}

/** The pairs that have the searched words, in the order of the table. */
function sortedPairs() {
  const words = $("search").value.trim().toLowerCase();
  const has = f => names[f].toLowerCase().includes(words);
  const pairs = view.order.filter(n => has(atoms.i[n]) || has(atoms.j[n]));
  const { compare } = COLUMNS.find(({ id }) => id === view.sort);
  const direction = view.up ? 1 : -1;
  const rank = new Map(view.order.map((n, k) => [n, k]));
  const byStrength = view.sort === (counts ? "effect" : "share");
  const groups = byStrength ? (p, q) => group(p) - group(q) : () => 0;
  return pairs.sort((p, q) =>
    groups(p, q) || direction * compare(p, q) || rank.get(p) - rank.get(q));
}

function showTable() {
  const pairs = sortedPairs();
  const longest = measure(view.order.map(n => strength(n, view.w)));
  const rows = pairs.slice(0, view.shown).map(n => tableRow(n, longest));
  $("table").tBodies[0].replaceChildren(...rows);
  for (const { id } of COLUMNS) {
    const head = $("by-" + id);
    if (id === view.sort) head.setAttribute("aria-sort", view.up ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
  const ending = $("search").value.trim() ? " found" : "";
  $("found").textContent = `${whole(rows.length)} of ${counted(pairs.length, "pair")}${ending}`;
  $("more").hidden = pairs.length <= view.shown;
}

// --- the network of the strongest pairs --------------------------------------------------------

const pen = document.createElement("canvas").getContext("2d");

const bond = n => (atoms.sign[n] > 0 ? "together with" : "apart from");

const ROW = 34; // height of a label and the space under it
const LABEL = 24; // height of a label

/** The components of a graph, each with the ends of its strongest edge first. */
function components(edges) {
  const seen = new Set();
  const found = [];
  for (const { a } of edges) {
    if (seen.has(a)) continue;
    seen.add(a);
    const nodes = [a];
    for (const node of nodes) { // which grow while they are walked through
      for (const next of node.edges.flatMap(edge => [edge.a, edge.b])) {
        if (seen.has(next)) continue;
        seen.add(next);
        nodes.push(next);
      }
    }
    found.push(nodes);
  }
  return found;
}

/** Call a function for each pair of nodes. */
function eachPair(nodes, act) {
  nodes.forEach((a, n) => nodes.slice(n + 1).forEach(b => act(a, b)));
}

/** Place the boxes of one component: springs along edges, repulsion, then no overlaps. */
function spread(nodes, width) {
  if (nodes.length === 2) {
    placeTwo(nodes, width);
    return;
  }
  placeAsSunflower(nodes);
  pullAndPush(nodes);
  squeeze(nodes, width);
  separate(nodes, width);
}

/** Two boxes stand beside each other if they fit, else one above the other. */
function placeTwo([a, b], width) {
  const space = 40;
  const isWide = a.w + b.w + space <= width;
  a.x = a.w / 2;
  a.y = LABEL / 2;
  b.x = isWide ? a.w + space + b.w / 2 : b.w / 2;
  b.y = isWide ? a.y : a.y + 2 * ROW;
}

const EDGE_LENGTH = 85;

/** Begin with a sunflower, which is the same every time. */
function placeAsSunflower(nodes) {
  nodes.forEach((node, n) => {
    const radius = 0.8 * EDGE_LENGTH * Math.sqrt(n);
    const angle = 2.399963 * n;
    node.x = radius * Math.cos(angle);
    node.y = radius * Math.sin(angle);
  });
}

/** Springs pull along edges, all nodes push each other away, and steps get shorter. */
function pullAndPush(nodes) {
  const edges = [...new Set(nodes.flatMap(node => node.edges))];
  const rounds = 300;
  const move = (a, b, dx, dy, force) => {
    a.dx += dx * force;
    a.dy += dy * force;
    b.dx -= dx * force;
    b.dy -= dy * force;
  };
  for (let round = 0; round < rounds; round++) {
    for (const node of nodes) {
      node.dx = 0;
      node.dy = 0;
    }
    eachPair(nodes, (a, b) => {
      const dx = a.x - b.x;
      const dy = a.y - b.y;
      const push = EDGE_LENGTH * EDGE_LENGTH / Math.max(dx * dx + dy * dy, 100);
      move(a, b, dx, dy, push);
    });
    for (const { a, b } of edges) {
      const dx = a.x - b.x;
      const dy = a.y - b.y;
      const pull = -Math.hypot(dx, dy) / EDGE_LENGTH;
      move(a, b, dx, dy, pull);
    }
    const longestStep = 60 * (1 - round / rounds) ** 2 + 0.5;
    for (const node of nodes) {
      const length = Math.hypot(node.dx, node.dy) || 1;
      const share = Math.min(length, longestStep) / length;
      node.x += node.dx * share;
      node.y += node.dy * share;
    }
  }
}

const leftmost = nodes => Math.min(...nodes.map(node => node.x - node.w / 2));

/** Make a layout as narrow as it must be, and flatter: labels are wide. */
function squeeze(nodes, width) {
  const taken = Math.max(...nodes.map(node => node.x + node.w / 2)) - leftmost(nodes);
  for (const node of nodes) {
    node.x *= Math.min(1, width / taken);
    node.y *= 0.62;
  }
  const left = leftmost(nodes);
  for (const node of nodes) node.x -= left;
}

/** Push boxes apart until none overlaps another, inside the width. */
function separate(nodes, width) {
  for (let round = 0; round < 400; round++) {
    let isMoved = false;
    eachPair(nodes, (a, b) => {
      isMoved = pushApart(a, b) || isMoved;
    });
    for (const node of nodes) {
      node.x = Math.max(Math.min(node.x, width - node.w / 2), node.w / 2);
    }
    if (!isMoved) return;
  }
}

/** Push two boxes apart along the shorter way; return whether they overlap. */
function pushApart(a, b) {
  const overX = (a.w + b.w) / 2 + 10 - Math.abs(a.x - b.x);
  const overY = ROW - Math.abs(a.y - b.y);
  if (overX <= 0.01 || overY <= 0.01) return false;
  const axis = overY < overX ? "y" : "x";
  const half = Math.min(overX, overY) / 2;
  const push = a[axis] < b[axis] ? -half : half;
  a[axis] += push;
  b[axis] -= push;
  return true;
}

/** The nodes of a component with the box around them. */
function blockOf(nodes, width) {
  spread(nodes, width);
  const x = leftmost(nodes);
  const right = Math.max(...nodes.map(node => node.x + node.w / 2));
  const y = Math.min(...nodes.map(node => node.y)) - LABEL / 2;
  const bottom = Math.max(...nodes.map(node => node.y)) + LABEL / 2;
  return { nodes, x, y, w: Math.min(right - x, width), h: bottom - y };
}

/** Place all components side by side, the highest first, each as far up as it fits; return the height. */
function layout(edges, width) {
  const unit = 4;
  const blocks = components(edges).map(nodes => blockOf(nodes, width));
  blocks.sort((p, q) => q.h - p.h); // stable: equals stay in the order of their strength
  const filled = new Array(Math.floor(width / unit)).fill(0); // the height of each column
  for (const block of blocks) {
    const span = Math.min(Math.ceil((block.w + 26) / unit), filled.length);
    const { column, top } = highestGap(filled, span);
    filled.fill(top + block.h + 18, column, column + span);
    for (const node of block.nodes) {
      node.x += column * unit - block.x;
      node.y += top - block.y;
    }
  }
  return Math.max(...filled);
}

/** The first column from which a block of some columns can stand highest. */
function highestGap(filled, span) {
  let best = { column: 0, top: Infinity };
  for (let column = 0; column + span <= filled.length; column++) {
    const top = Math.max(...filled.slice(column, column + span));
    if (top < best.top) best = { column, top };
  }
  return best;
}

/** The nodes and the edges of a network of pairs. */
function networkOf(pairs, width) {
  pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  const nodes = new Map();
  for (const f of pairs.flatMap(n => [atoms.i[n], atoms.j[n]])) {
    if (nodes.has(f)) continue;
    const label = short(names[f], 24);
    const w = Math.min(pen.measureText(label).width + 16, width);
    nodes.set(f, { f, label, w, edges: [] });
  }
  const edges = pairs.map(n => ({ n, a: nodes.get(atoms.i[n]), b: nodes.get(atoms.j[n]) }));
  for (const edge of edges) {
    edge.a.edges.push(edge);
    edge.b.edges.push(edge);
  }
  return { nodes: [...nodes.values()], edges };
}

/** The other end of an edge. */
const partner = (edge, node) => (edge.a === node ? edge.b : edge.a);

function showNetwork() {
  choose(); // a page out of sight gets no frames
  const holder = $("graph");
  const margin = 4;
  const width = Math.max(280, holder.clientWidth);
  const limit = width < 600 ? 24 : 60;
  const pairs = view.order.filter(n => isCommon(n) && !hasClass(n)).slice(0, limit);
  const { nodes, edges } = networkOf(pairs, width - 2 * margin);
  const height = Math.ceil(layout(edges, width - 2 * margin)) + margin;
  for (const node of nodes) {
    node.x += margin;
    node.y += margin;
  }
  const svg = s("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "group",
    "aria-label": `Network of ${counted(nodes.length, "feature")}, by arrow keys`,
  });
  svg.append(s("g", { class: "edges" }, ...edges.map(edge => drawEdge(edge, pairs[0]))));
  const light = new Light(svg);
  nodes.forEach((_, n) => svg.append(drawNode(nodes, n, light)));
  holder.replaceChildren(svg);
  const all = counted(view.order.length, "pair");
  const isPart = pairs.length < view.order.length;
  const which = isPart ? `${counted(pairs.length, "strong pair")} of ${all}` : all;
  const what = counts ? "effect" : "weight";
  $("network-note").textContent = `${which}; the wider a line, the more ${what}.`;
}

/** Draw an edge, wider the stronger its pair is in relation to the strongest. */
function drawEdge(edge, strongest) {
  const { n, a, b } = edge;
  const share = strength(n, view.w) / strength(strongest, view.w) || 0;
  edge.line = s("path", {
    class: "edge " + sideOf(n),
    d: `M${a.x.toFixed(1)} ${a.y.toFixed(1)}L${b.x.toFixed(1)} ${b.y.toFixed(1)}`,
    "stroke-width": (1.5 + 6 * Math.sqrt(share)).toFixed(2),
  });
  return edge.line;
}

/** Shows one node of a network with its partners, and the others less. */
class Light {
  constructor(svg) {
    this.svg = svg;
  }

  off() {
    this.svg.classList.remove("choosing");
    hideTip();
    for (const lit of this.svg.querySelectorAll(".lit")) lit.classList.remove("lit");
  }

  on(node) {
    this.off();
    this.svg.classList.add("choosing");
    node.group.classList.add("lit");
    for (const { a, b, line } of node.edges) {
      for (const element of [a.group, b.group, line]) element.classList.add("lit");
    }
    const lines = node.edges.slice(0, 12).map(edge => h("div", {},
      `${bond(edge.n)} `, feature(partner(edge, node).f), ` ${strengthText(edge.n, view.w)}`));
    showTip(node.group.getBoundingClientRect(), feature(node.f), ...lines);
  }
}

const STEPS_OF_KEYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Draw a feature: pointing shows its partners, pressing searches for it, arrows go on. */
function drawNode(nodes, n, light) {
  const node = nodes[n];
  const partners = node.edges.map(edge => `${bond(edge.n)} ${names[partner(edge, node).f]}`);
  node.group = s("g", {
    class: classes ? `vertex tinted ${hue(classOf(node.f))}` : "vertex",
    role: "button",
    tabindex: n ? -1 : 0,
    "aria-label": `${names[node.f]}: ${partners.join(", ")}`,
    transform: `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})`,
    onpointerenter: () => light.on(node),
    onpointerleave: () => light.off(),
    onfocus: () => light.on(node),
    onblur: () => light.off(),
    onclick: () => searchPairs(names[node.f]),
    onkeydown: event => pressKey(event, nodes, n),
  });
  const box = { x: -node.w / 2, y: -LABEL / 2, width: node.w, height: LABEL, rx: LABEL / 2 };
  node.group.append(s("rect", box), s("text", {}, node.label));
  return node.group;
}

function pressKey(event, nodes, n) {
  const { group } = nodes[n];
  const step = STEPS_OF_KEYS[event.key];
  if (step) {
    event.preventDefault();
    const next = nodes[(n + step + nodes.length) % nodes.length].group;
    group.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    searchPairs(names[nodes[n].f]);
  }
}

/** Show the pairs of a feature in the table. */
function searchPairs(name) {
  $("search").value = name;
  $("search").dispatchEvent(new Event("input"));
  $("search").focus();
}
