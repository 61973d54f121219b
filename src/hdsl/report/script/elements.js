// --- words and numbers -------------------------------------------------------------------------

const whole = n => n.toLocaleString("en-US");
const counted = (n, singular, plural = singular + "s") =>
  `${whole(n)} ${n === 1 ? singular : plural}`;
const percent = (share, digits = 1) => (100 * share).toFixed(digits) + " %";
const range = ([low, high]) => `${(100 * low).toFixed(1)} to ${percent(high)}`;

function withInterval({ n_wrong, error, interval }) {
  const n = whole(Math.round(10 * n_wrong) / 10);
  return `${percent(error, 2)} (${n}; ${range(interval)})`;
}

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

function ordinal(n) {
  const ends = { 1: "st", 2: "nd", 3: "rd" };
  const isTeen = [11, 12, 13].includes(n % 100);
  const end = isTeen ? "th" : ends[n % 10] ?? "th";
  return whole(n) + end;
}

const signed = value => (value > 0 ? "+" : "") + number(value);

function short(text, length) {
  const characters = [...text];
  if (characters.length <= length) return text;
  return characters.slice(0, length - 1).join("") + "…";
}

const capitalized = text => text.charAt(0).toUpperCase() + text.slice(1);
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

// A colour per class, as a number; -1 is none. The page says which is which where items are listed.
const classOf = f => (classes ? classes.of[f] : -1);
const hue = n => (n >= 0 ? `hue-${n}` : "hue-none");

function feature(f) {
  const kind = classes ? `feature tinted ${hue(classOf(f))}` : "feature";
  return h("span", { class: kind }, names[f]);
}

const signOf = n => h("span", { class: "sign " + sideOf(n) }, atoms.sign[n] > 0 ? "+" : "−");
const pairOf = n =>
  h("span", { class: "pair" }, feature(atoms.i[n]), " ", signOf(n), " ", feature(atoms.j[n]));

/** A sentence whose commands, between backticks, are code. */
const withCode = sentence =>
  sentence.split("`").map((piece, n) => (n % 2 ? h("code", {}, piece) : piece));

/** What bars are measured by: the largest value, or the next where that towers over all others. */
const measure = ([first, next]) => (first > 4 * next ? 1.5 * next : first);

const definitions = entries =>
  entries.map(([term, ...text]) => h("div", {}, h("dt", {}, term), h("dd", {}, ...text)));

/** A bar; one that would be longer than its track fades out at the end. */
function meter(share, side) {
  const kind = share > 1 ? "over" : "";
  const bar = h("span", { class: `meter ${side} ${kind}`, "aria-hidden": "true" });
  bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return bar;
}

const gauge = (text, share, side) =>
  h("span", { class: "gauge" }, h("span", {}, text), h("span", {}, meter(share, side)));

// --- text beside the pointer, or beside what has the focus -------------------------------------

/** Show a text beside a rectangle of the window. */
function showTip(box, ...children) {
  const tip = $("tip");
  tip.replaceChildren(...children);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const rightmost = document.documentElement.clientWidth - width - 8;
  const middle = (box.left + box.right - width) / 2;
  const above = box.top - height - 8;
  const top = above > 60 ? above : box.bottom + 8;
  tip.style.left = `${Math.max(8, Math.min(middle, rightmost)) + scrollX}px`;
  tip.style.top = `${top + scrollY}px`;
}

function hideTip() {
  $("tip").hidden = true;
}

/** Show a text while an element is pointed at or has the focus. */
function hint(node, text) {
  const show = () => showTip(node.getBoundingClientRect(), ...text());
  for (const name of ["pointerenter", "focus"]) node.addEventListener(name, show);
  for (const name of ["pointerleave", "blur"]) node.addEventListener(name, hideTip);
  return node;
}
