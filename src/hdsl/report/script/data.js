// --- data: arrays come as base64 with their type -----------------------------------------------

const TYPES = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i1: Int8Array,
  i2: Int16Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};

function unpack(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  if (typeof value.bytes === "string") return unpackArray(value);
  const entries = Object.entries(value).map(([name, entry]) => [name, unpack(entry)]);
  return Object.fromEntries(entries);
}

function unpackArray({ type, bytes }) {
  const binary = atob(bytes);
  const numbers = new Uint8Array(binary.length);
  for (let n = 0; n < binary.length; n++) numbers[n] = binary.charCodeAt(n);
  return new TYPES[type](numbers.buffer);
}

const data = unpack(JSON.parse(document.getElementById("data").textContent));
const { model, atoms, inside, steps, corrections, trace, names, counts, items, classes } = data;
const LAST = steps.size.length - 1;

// Pairs of features come first, then the directions of an embedding that are learned.
const N_PAIRS = atoms.i.length;
const N_DIRECTIONS = inside ? inside.n : 0;
const N_ATOMS = N_PAIRS + N_DIRECTIONS;

// --- the models of the path, from its steps ----------------------------------------------------

/** Replays the path; the weights after some iterations are kept, so that none is far. */
class Path {
  constructor() {
    this.stride = Math.max(50, Math.ceil(LAST / 60));
    const start = new Float64Array(N_ATOMS + 1); // the last is the zero atom
    start[steps.toward[0]] = 1;
    this.kept = [start]; // the weights after 0, stride, 2 stride, … iterations
    this.firstCorrection = new Array(LAST + 1); // of each iteration that has corrections
    for (let n = corrections.n_iter.length - 1; n >= 0; n--) {
      this.firstCorrection[corrections.n_iter[n]] = n;
    }
  }

  /** The weights of the atoms after k iterations. */
  weightsAfter(k) {
    const nearest = Math.min(Math.floor(k / this.stride), this.kept.length - 1);
    const w = this.kept[nearest].slice();
    for (let n = nearest * this.stride + 1; n <= k; n++) {
      this.correct(w, n);
      this.step(w, n);
      if (n === this.kept.length * this.stride) this.kept.push(w.slice());
    }
    return w;
  }

  /** Set the weights that iteration k corrected. */
  correct(w, k) {
    for (let n = this.firstCorrection[k]; corrections.n_iter[n] === k; n++) {
      w[corrections.atom[n]] = corrections.weight[n];
    }
  }

  /** Move weight to one atom, or from one atom, or both, as iteration k did. */
  step(w, k) {
    const size = steps.size[k];
    const toward = steps.toward[k];
    const away = steps.away[k];
    if (!(size > 0)) return;
    let factor = 1;
    if (away < 0) factor = 1 - size;
    else if (toward < 0) factor = 1 + size;
    for (let n = 0; n <= N_ATOMS; n++) w[n] *= factor;
    if (away >= 0) w[away] = steps.drop[k] ? 0 : Math.max(w[away] - size, 0);
    if (toward >= 0) w[toward] += size;
    let sum = 0;
    for (let n = 0; n <= N_ATOMS; n++) sum += w[n];
    for (let n = 0; n <= N_ATOMS; n++) w[n] /= sum;
  }
}

const path = new Path();

// What a pair adds to the similarity of two rows, as a root mean square, less where few rows have
// the rarer feature; by weight without rows.
const FEW = 5;
const rarer = n => Math.min(counts.feature[atoms.i[n]], counts.feature[atoms.j[n]]);
const effect = (n, w) => model.scale * w[n] * counts.size[n] * rarer(n) / (rarer(n) + FEW);
const strength = counts ? effect : (n, w) => w[n];
const isCommon = n => !counts || rarer(n) >= FEW;
const isScore = f => data.is_score[f];
const hasClass = n => isScore(atoms.i[n]) || isScore(atoms.j[n]);

/** Pairs of words come first, then those with a class, then those of what few rows have. */
function group(n) {
  const ofRare = isCommon(n) ? 0 : 2;
  return ofRare + (hasClass(n) ? 1 : 0);
}

/** The pairs in use by group, the strongest first. */
function ranked(w) {
  const active = [];
  for (let n = 0; n < N_PAIRS; n++) if (w[n] > 0) active.push(n);
  return active.sort((p, q) =>
    group(p) - group(q) || strength(q, w) - strength(p, w) || w[q] - w[p] || p - q);
}

// --- the similarity of two items ---------------------------------------------------------------

/** The values of an item by feature; `along` has those of its embedding along directions. */
function valuesOf(item) {
  const values = new Map();
  if (inside) {
    const along = inside.along.subarray(item * N_DIRECTIONS, (item + 1) * N_DIRECTIONS);
    values.along = Float64Array.from(along);
  }
  for (let n = items.start[item]; n < items.start[item + 1]; n++) {
    values.set(items.feature[n], items.value[n]);
  }
  return values;
}

/** The fixed part of the similarity that compares each feature: they share no column. */
const fixedPartOf = names.map((_, f) => {
  const column = data.columns[f];
  return model.fixed.find(({ start, stop }) => start <= column && column < stop);
});

const fixedWeight = Float64Array.from(fixedPartOf, ({ weight }) => weight);

/** The fixed parts that count. */
const weightedParts = model.fixed.filter(({ weight }) => weight > 0);

/** What readers call a fixed part. */
const titleOfPart = ({ name }) => (name === "prior" ? "plain dot product" : name);

const total = terms => terms.reduce((sum, { value }) => sum + value, 0);

/** What each fixed part adds to the similarity of x and y, and of which shared features. */
function fixedTerms(x, y) {
  const terms = weightedParts.map(fixedPart => ({ fixedPart, shared: [] }));
  const sharedBy = new Map(terms.map(({ fixedPart, shared }) => [fixedPart, shared]));
  for (const [f, value] of x) {
    if (fixedWeight[f] > 0 && y.has(f)) {
      const product = fixedWeight[f] * value * y.get(f);
      sharedBy.get(fixedPartOf[f]).push({ feature: f, value: product });
    }
  }
  return terms.map(term => ({ ...term, value: total(term.shared) }));
}

/** What is learned of each feature and feature pair that x and y have: M_ij (x_i y_j + x_j y_i). */
function learnedReasons(x, y, w) {
  const reasons = new Map();
  const add = (features, value) => {
    if (value === 0) return;
    const key = features.join(" ");
    const reason = reasons.get(key) ?? { features, learned: 0, plain: 0 };
    reason.learned += value;
    reasons.set(key, reason);
  };
  const isUsed = f => x.has(f) || y.has(f);
  for (let n = 0; n < N_PAIRS; n++) {
    const i = atoms.i[n];
    const j = atoms.j[n];
    if (!(w[n] > 0) || !(isUsed(i) || isUsed(j))) continue;
    const size = model.scale * w[n];
    const product = (p, q) => size * (x.get(p) ?? 0) * (y.get(q) ?? 0);
    add([i], product(i, i));
    add([j], product(j, j));
    add([Math.min(i, j), Math.max(i, j)], atoms.sign[n] * (product(i, j) + product(j, i)));
  }
  return reasons;
}

/** What is learned inside the embedding, as a part of the similarity that has no features. */
const LEARNED_INSIDE = { name: "meaning, learned" };

/** The values along the directions, each times what the direction weighs. */
const weighedAlong = (along, w) =>
  along.map((value, k) => inside.scale * w[N_PAIRS + k] * value);

/** The dot product of values along directions; 0 for typed words, whose embedding is not known. */
function productAlong(first, second) {
  if (!first || !second) return 0;
  return first.reduce((sum, value, k) => sum + value * second[k], 0);
}

/** One reason per feature and feature pair that x and y have, learned and plain, the largest first.
 * A fixed part that is not explained by features is one reason of its own. */
function reasonsOf(x, y, w, fixed) {
  const reasons = learnedReasons(x, y, w);
  if (x.along && y.along) {
    const learned = productAlong(weighedAlong(x.along, w), y.along);
    if (learned !== 0) {
      reasons.set(LEARNED_INSIDE, { features: [], fixedPart: LEARNED_INSIDE, learned, plain: 0 });
    }
  }
  for (const { fixedPart, shared, value } of fixed) {
    if (!fixedPart.by_feature) {
      if (value !== 0) reasons.set(fixedPart, { features: [], fixedPart, learned: 0, plain: value });
      continue;
    }
    for (const term of shared) {
      const key = String(term.feature);
      const reason = reasons.get(key) ?? { features: [term.feature], learned: 0, plain: 0 };
      reason.plain += term.value;
      reasons.set(key, reason);
    }
  }
  const withSums = [...reasons.values()].map(reason =>
    ({ ...reason, value: reason.learned + reason.plain }));
  return withSums.sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
}

function explain(x, y, w) {
  const fixed = fixedTerms(x, y);
  const reasons = reasonsOf(x, y, w, fixed);
  const plain = total(fixed);
  const learned = reasons.reduce((sum, reason) => sum + reason.learned, 0);
  return { fixed, plain, learned, reasons, total: plain + learned };
}
