// --- charts ------------------------------------------------------------------------------------

// Each series has one value per iteration, from 0.
const CHARTS = [
  { title: "Mean loss", unit: "of the comparisons", series: [{ values: trace.objective }] },
  { title: "Duality gap", unit: "logarithmic", log: true, series: [{ values: trace.gap }] },
  { title: "In use", unit: "pairs and features", series: [
    { name: "features", values: trace.n_features }, { name: "pairs", values: trace.n_atoms }] },
];

const drawable = log => v => !Number.isNaN(v) && (!log || v > 0);

function ticks(low, high, log) {
  if (log) {
    const found = [], decades = Math.log10(high / low);
    const marks = decades < 1 ? [1, 2, 3, 5] : decades < 2.5 ? [1, 3] : [1];
    const stride = Math.max(1, Math.ceil(decades / 5));
    for (let n = Math.floor(Math.log10(low)); n <= Math.log10(high); n += stride) {
      found.push(...marks.map(m => m * 10 ** n).filter(v => v >= low && v <= high));
    }
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

  const W = Math.max(240, figure.clientWidth), H = 206;
  const box = { left: 52, right: W - 14, top: 10, bottom: H - 40 };
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
    svg.append(s("path", { class: "grid", d: `M${x(t)} ${box.bottom}v4` }),
      s("text", { x: x(t), y: box.bottom + 17, "text-anchor": "middle" }, whole(t)));
  }
  svg.append(s("text", { x: box.right, y: H - 4, "text-anchor": "end" }, "iterations"));
  series.forEach(({ name, values }, n) => {
    let d = "", pen = "M";
    const points = [], stride = Math.max(1, Math.floor(LAST / 1500));
    for (let k = 0; k <= LAST; k = k < LAST ? Math.min(k + stride, LAST) : k + 1) {
      if (good(values[k])) {
        points.push([x(k), y(values[k])]);
        d += `${pen}${points.at(-1)[0].toFixed(1)} ${points.at(-1)[1].toFixed(1)}`;
        pen = "L";
      } else pen = "M";
    }
    svg.append(s("path", { class: "curve " + "ab"[n], d }));
    if (points.length < 80) {
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
  const under = event => {
    const inside = (event.clientX - svg.getBoundingClientRect().left) * (W / svg.clientWidth || 1);
    return Math.max(0, Math.min(Math.round((inside - box.left) / (box.right - box.left) * LAST), LAST));
  };
  const pick = event => goTo(under(event));
  svg.addEventListener("pointerdown", pick);
  svg.addEventListener("pointermove", event => {
    if (event.buttons & 1) pick(event);
    const k = under(event), said = series.flatMap(({ name, values }) =>
      good(values[k]) ? [`${name ? name + " " : ""}${number(values[k], 4)}`] : []);
    tell({ getBoundingClientRect: () => ({ left: event.clientX, right: event.clientX,
      top: event.clientY, bottom: event.clientY + 14 }) }, `Iteration ${whole(k)}: ${said.join(", ")}`);
  });
  svg.addEventListener("pointerleave", untell);
  return k => {
    line.setAttribute("d", `M${x(k)} ${box.top}V${box.bottom}`);
    series.forEach(({ values }, n) => {
      dots[n].setAttribute("visibility", good(values[k]) ? "visible" : "hidden");
      if (good(values[k])) fill(dots[n], { cx: x(k), cy: y(values[k]) }, []);
    });
  };
}

let cursors = [];

function drawCharts() {
  const there = CHARTS.filter(({ series, log }) => series[0].values.some(drawable(log)));
  const figures = there.map(({ title, unit }) => h("figure", { class: "chart" },
    h("figcaption", {}, title + " ", h("span", {}, unit))));
  $("charts").replaceChildren(...figures); // all at once: their widths depend on each other
  cursors = there.map((options, n) => chart(options, figures[n]));
}
