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
      `${counted(counts.n_rows, "row")}, and less where few rows have the rarer feature. The last ` +
      `columns tell in how many rows the features occur; pairs with a feature in fewer than ${FEW} ` +
      "rows come last." : "");
  $("search").addEventListener("input", () => { view.shown = 50; showTable(); });
  $("more").addEventListener("click", () => { view.shown += 200; showTable(); });
}

/** The strongest pairs of each sign, with their effect and the rows that have each feature. */
function showStrongest() {
  const { w, order } = view, common = order.filter(isCommon);
  const most = measure(common.filter(n => !hasClass(n)).map(n => strength(n, w)));
  const entry = (n, id) => h("li", {},
    h("span", {}, pairOf(n)), h("span", { class: "percent" }, strengthText(n, w)),
    counts ? h("span", { class: "support" },
      `in ${whole(counts.feature[atoms.i[n]])} and ${whole(counts.feature[atoms.j[n]])} rows`) : "",
    meter(strength(n, w) / most, id));
  for (const [id, sign] of [["together", 1], ["apart", -1]]) {
    const list = common.filter(n => atoms.sign[n] === sign && !hasClass(n)).slice(0, 8);
    const none = h("li", { class: "note" }, "None");
    $(id).replaceChildren(...(list.length ? list.map(n => entry(n, id)) : [none]));
  }
  const classed = common.filter(hasClass).slice(0, 8);
  $("of-classes").hidden = !classed.length;
  $("classed").replaceChildren(...classed.map(n => entry(n, sideOf(n))));
}

/** Rows of the table of pairs. */
function rowsOf(list, w, most) {
  const cells = {
    i: n => [feature(atoms.i[n])],
    sign: n => [signOf(n)],
    j: n => [feature(atoms.j[n])],
    weight: n => [number(model.scale * w[n])],
    share: n => counts ? [percent(w[n], 2)] : [gauge(percent(w[n], 2), w[n] / most, sideOf(n))],
    effect: n => [gauge(number(effect(n, w)), effect(n, w) / most, sideOf(n))],
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
  list.sort((p, q) => (isRank ? group(p) - group(q) : 0) ||
    turn * column.compare(p, q) || rank.get(p) - rank.get(q));
  const most = measure(view.order.map(n => strength(n, view.w)));
  const rows = rowsOf(list.slice(0, view.shown), view.w, most);
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
  const limit = W < 600 ? 24 : 60, list = view.order.filter(n => isCommon(n) && !hasClass(n)).slice(0, limit);
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
    untell();
    for (const lit of svg.querySelectorAll(".lit")) lit.classList.remove("lit");
  };
  const light = node => {
    clear();
    svg.classList.add("choosing");
    node.group.classList.add("lit");
    for (const { a, b, line } of node.edges) {
      for (const lit of [a.group, b.group, line]) lit.classList.add("lit");
    }
    tell(node.group, feature(node.f), ...node.edges.slice(0, 12).map(({ n, a, b }) =>
      h("div", {}, `${bond(n)} `, feature(a === node ? b.f : a.f), ` ${strengthText(n, view.w)}`)));
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
      class: classes ? `vertex tinted ${hue(classOf(node.f))}` : "vertex", role: "button", tabindex: nth ? -1 : 0,
      "aria-label": `${names[node.f]}: ${partners.join(", ")}`,
      transform: `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})`,
      onpointerenter: () => light(node), onpointerleave: clear, onfocus: () => light(node),
      onblur: clear, onclick: () => find(node), onkeydown: press,
    });
    const box = { x: -node.w / 2, y: -12, width: node.w, height: 24, rx: 12 };
    node.group.append(s("rect", box), s("text", {}, node.label));
    svg.append(node.group);
  });
  holder.replaceChildren(svg);
  const all = counted(view.order.length, "pair");
  const which = list.length < view.order.length ? `${counted(list.length, "strong pair")} of ${all}` : all;
  $("network-note").textContent = `${which}; the wider a line, the more ${counts ? "effect" : "weight"}.`;
}
