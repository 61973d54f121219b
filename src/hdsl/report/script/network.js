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
  const which = list.length < view.order.length ? `The ${list.length} strongest of ${all}` : all;
  $("network-note").textContent = `${which}; the wider a line, the more ${counts ? "effect" : "weight"}.`;
}
