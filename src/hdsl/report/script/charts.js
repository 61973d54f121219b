// --- charts ------------------------------------------------------------------------------------

// Each series has one value per iteration, from 0.
const CHARTS = [
  { title: "Mean loss", unit: "of the comparisons", series: [{ values: trace.objective }] },
  { title: "Duality gap", unit: "logarithmic", log: true, series: [{ values: trace.gap }] },
  {
    title: "In use",
    unit: "pairs and features",
    series: [
      { name: "features", values: trace.n_features },
      { name: "pairs", values: trace.n_atoms },
    ],
  },
];

const CHART_HEIGHT = 206;

/** Points of a curve that are drawn at most. */
const MOST_POINTS = 1500;

/** Curves with fewer points have a dot at each. */
const FEW_POINTS = 80;

const isDrawable = log => v => !Number.isNaN(v) && (!log || v > 0);

const ticks = (low, high, log) => (log ? decadeTicks(low, high) : evenTicks(low, high));

function decadeTicks(low, high) {
  const decades = Math.log10(high / low);
  let digits = [1];
  if (decades < 1) digits = [1, 2, 3, 5];
  else if (decades < 2.5) digits = [1, 3];
  const stride = Math.max(1, Math.ceil(decades / 5));
  const values = [];
  for (let n = Math.floor(Math.log10(low)); n <= Math.log10(high); n += stride) {
    values.push(...digits.map(digit => digit * 10 ** n));
  }
  return values.filter(v => v >= low && v <= high);
}

function evenTicks(low, high) {
  const rough = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(digit => digit * power >= rough) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const values = [];
  for (let n = first; n <= last; n++) values.push(n * step + 0); // no -0
  return values;
}

function tickText(value) {
  const size = Math.abs(value);
  const isPlain = size === 0 || (size >= 1e-3 && size < 1e5);
  return isPlain ? (+value.toPrecision(3)).toLocaleString("en-US") : number(value, 1);
}

/** The lowest and the highest value of the vertical axis. */
function valueRange(series, log) {
  const values = series.flatMap(({ values }) => [...values].filter(isDrawable(log)));
  let low = values.reduce((least, v) => Math.min(least, v), Infinity);
  let high = values.reduce((largest, v) => Math.max(largest, v), -Infinity);
  if (log) return [low / 1.2, high * 1.2];
  if (series.length > 1) low = 0;
  const margin = 0.05 * (high - low || Math.abs(high) || 1);
  high += margin;
  if (low !== 0) low -= margin;
  return [low, high];
}

/** Where iterations and values stand in a chart. */
class Axes {
  constructor({ series, log }, width) {
    const [low, high] = valueRange(series, log);
    this.low = low;
    this.high = high;
    this.log = log;
    this.left = 52;
    this.right = width - 14;
    this.top = 10;
    this.bottom = CHART_HEIGHT - 40;
  }

  x(k) {
    const share = LAST ? k / LAST : 0;
    return this.left + share * (this.right - this.left);
  }

  y(v) {
    return this.bottom - this.height(v) * (this.bottom - this.top);
  }

  /** The height of a value as a share of the axis. */
  height(v) {
    if (this.log) return Math.log(v / this.low) / Math.log(this.high / this.low);
    return (v - this.low) / (this.high - this.low);
  }

  /** The iteration at a horizontal position. */
  iteration(x) {
    const k = Math.round((x - this.left) / (this.right - this.left) * LAST);
    return Math.max(0, Math.min(k, LAST));
  }
}

/** Draw one chart into its figure; return what moves its cursor. */
function chart(options, figure) {
  const { title, series, log } = options;
  const width = Math.max(240, figure.clientWidth);
  const axes = new Axes(options, width);
  const svg = s("svg", {
    width,
    height: CHART_HEIGHT,
    viewBox: `0 0 ${width} ${CHART_HEIGHT}`,
    role: "img",
    "aria-label": chartLabel(title, series, log),
  });
  figure.append(svg);
  drawGrid(svg, axes);
  series.forEach((_, n) => drawCurve(svg, axes, series, n));
  const line = s("path", { class: "cursor" });
  const dots = series.map((_, n) => s("circle", { class: "dot " + "ab"[n], r: 4.5 }));
  svg.append(line, ...dots);
  prepareCursor(svg, axes, series, width);
  return k => {
    line.setAttribute("d", `M${axes.x(k)} ${axes.top}V${axes.bottom}`);
    series.forEach(({ values }, n) => {
      const isShown = isDrawable(log)(values[k]);
      dots[n].setAttribute("visibility", isShown ? "visible" : "hidden");
      if (isShown) fill(dots[n], { cx: axes.x(k), cy: axes.y(values[k]) }, []);
    });
  };
}

/** What a chart says to those who do not see it. */
function chartLabel(title, series, log) {
  const ends = series.map(({ name, values }) => {
    const drawn = [...values].filter(isDrawable(log));
    return `${prefix(name)}from ${number(drawn[0])} to ${number(drawn.at(-1))}`;
  });
  return `${title} along the path, ${ends.join(", ")}`;
}

const prefix = name => (name ? name + " " : "");

function drawGrid(svg, axes) {
  for (const v of ticks(axes.low, axes.high, axes.log)) {
    const y = axes.y(v);
    svg.append(
      s("path", { class: "grid", d: `M${axes.left} ${y}H${axes.right}` }),
      s("text", { x: axes.left - 7, y: y + 4, "text-anchor": "end" }, tickText(v)));
  }
  const iterations = ticks(0, LAST || 1, false).filter(Number.isInteger);
  for (const k of iterations.filter(k => k <= LAST)) {
    const x = axes.x(k);
    svg.append(
      s("path", { class: "grid", d: `M${x} ${axes.bottom}v4` }),
      s("text", { x, y: axes.bottom + 17, "text-anchor": "middle" }, whole(k)));
  }
  const label = { x: axes.right, y: CHART_HEIGHT - 4, "text-anchor": "end" };
  svg.append(s("text", label, "iterations"));
}

/** Draw one series, with a gap where a value cannot be drawn. */
function drawCurve(svg, axes, series, n) {
  const { name, values } = series[n];
  const points = [];
  let d = "";
  let pen = "M";
  for (const k of drawnIterations()) {
    if (!isDrawable(axes.log)(values[k])) {
      pen = "M";
      continue;
    }
    const cx = axes.x(k);
    const cy = axes.y(values[k]);
    points.push({ cx, cy });
    d += `${pen}${cx.toFixed(1)} ${cy.toFixed(1)}`;
    pen = "L";
  }
  svg.append(s("path", { class: "curve " + "ab"[n], d }));
  if (points.length < FEW_POINTS) {
    svg.append(...points.map(point => s("circle", { class: "point", r: 2.5, ...point })));
  }
  if (name) drawName(svg, axes, series, n);
}

/** Iterations of the points of a curve: the first, the last, and as many as can be told apart. */
function drawnIterations() {
  const stride = Math.max(1, Math.floor(LAST / MOST_POINTS));
  const iterations = [];
  for (let k = 0; k < LAST; k += stride) iterations.push(k);
  return [...iterations, LAST];
}

/** Write the name of one of two series at its end, on the side where the other is not. */
function drawName(svg, axes, series, n) {
  const end = axes.y(series[n].values[LAST]);
  const other = axes.y(series[1 - n].values[LAST]);
  const isAbove = n === 0 ? end <= other - 1e-9 : end <= other;
  const y = isAbove ? end - 8 : Math.min(end + 18, axes.bottom - 4);
  const attributes = { class: "ab"[n], x: axes.right - 4, "text-anchor": "end", y };
  svg.append(s("text", attributes, series[n].name));
}

/** Show the values under the pointer, and go to an iteration that is pressed. */
function prepareCursor(svg, axes, series, width) {
  const under = event => {
    const { left } = svg.getBoundingClientRect();
    return axes.iteration((event.clientX - left) * (width / svg.clientWidth || 1));
  };
  svg.addEventListener("pointerdown", event => goTo(under(event)));
  svg.addEventListener("pointermove", event => {
    const k = under(event);
    if (event.buttons & 1) goTo(k);
    const texts = series
      .filter(({ values }) => isDrawable(axes.log)(values[k]))
      .map(({ name, values }) => prefix(name) + number(values[k], 4));
    const pointer = {
      left: event.clientX,
      right: event.clientX,
      top: event.clientY,
      bottom: event.clientY + 14,
    };
    showTip(pointer, `Iteration ${whole(k)}: ${texts.join(", ")}`);
  });
  svg.addEventListener("pointerleave", hideTip);
}

let cursors = [];

function drawCharts() {
  const drawable = CHARTS.filter(({ series, log }) => series[0].values.some(isDrawable(log)));
  const figures = drawable.map(({ title, unit }) => h("figure", { class: "chart" },
    h("figcaption", {}, title + " ", h("span", {}, unit))));
  $("charts").replaceChildren(...figures); // all at once: their widths depend on each other
  cursors = drawable.map((options, n) => chart(options, figures[n]));
}
