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
const { model, atoms, steps, corrections, trace, names, counts, items, classes } = data;
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

  /** The weights of the atoms after k iterations. */
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

// What a pair adds to the similarity of two rows, as a root mean square, less where few rows have
// the rarer feature; by weight without rows.
const FEW = 5;
const rarer = n => Math.min(counts.feature[atoms.i[n]], counts.feature[atoms.j[n]]);
const effect = (n, w) => model.scale * w[n] * counts.size[n] * rarer(n) / (rarer(n) + FEW);
const strength = counts ? effect : (n, w) => w[n];
const isCommon = n => !counts || rarer(n) >= FEW;
const isScore = f => data.is_score[f];
const hasClass = n => isScore(atoms.i[n]) || isScore(atoms.j[n]);
const group = n => (isCommon(n) ? 0 : 2) + hasClass(n);

/** The atoms in use, the strongest first: those of words, of classes, of what few rows have. */
function ranked(w) {
  const active = [];
  for (let n = 0; n < N_ATOMS; n++) if (w[n] > 0) active.push(n);
  return active.sort((p, q) =>
    group(p) - group(q) || strength(q, w) - strength(p, w) || w[q] - w[p] || p - q);
}

// --- the similarity of two items ---------------------------------------------------------------

function valuesOf(item) {
  const values = new Map();
  for (let n = items.start[item]; n < items.start[item + 1]; n++) {
    values.set(items.feature[n], items.value[n]);
  }
  return values;
}

/** The weight of each feature in the fixed parts of the similarity, which share no column. */
const fixedWeight = Float64Array.from(names, (_, f) => {
  const column = data.columns[f];
  return model.fixed.find(part => part.start <= column && column < part.stop).weight;
});

const hasFixed = model.fixed.some(part => part.weight > 0);

function explain(x, y, w) {
  const shared = [], pairs = [];
  for (const [f, value] of x) {
    if (fixedWeight[f] > 0 && y.has(f)) {
      shared.push({ feature: f, value: fixedWeight[f] * value * y.get(f) });
    }
  }
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
