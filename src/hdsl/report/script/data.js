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
const { model, atoms, steps, corrections, trace, names, counts, items, classes, regions } = data;
const choice = data.choice && data.choice.map(unpack); // iterations and validation scores
const LAST = steps.size.length - 1;
const N_ATOMS = atoms.i.length;
const N_BLOCKS = 1 + (regions ? regions.names.length : 0); // M, and one per region

// --- the models of the path, from its steps: weights of M, then of each region -----------------

const path = (() => {
  const every = Math.max(50, Math.ceil(LAST / 60));
  const start = Array.from({ length: N_BLOCKS }, (_, block) => {
    const w = new Float64Array(N_ATOMS + 1); // the last is the zero atom
    w[block ? N_ATOMS : steps.toward[0]] = 1;
    return w;
  });
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
    const blocks = [...kept[known]], own = new Set(); // a block is copied before it changes
    for (let n = known * every + 1; n <= k; n++) {
      const block = steps.block ? steps.block[n] : 0;
      if (!own.has(block)) blocks[block] = blocks[block].slice();
      own.add(block);
      take(blocks[block], n);
      if (n % every === 0 && n / every === kept.length) { kept.push([...blocks]); own.clear(); }
    }
    return blocks;
  }
  return { at };
})();

// What a pair adds to the similarity of two rows, as a root mean square; by weight without rows.
const MIN_ROWS = 2; // of each feature, or else a pair may be chance
const effect = (n, w, scale = model.scale) => scale * w[n] * counts.size[n];
const strength = counts ? effect : (n, w) => w[n];
const isCommon = n =>
  !counts || Math.min(counts.feature[atoms.i[n]], counts.feature[atoms.j[n]]) >= MIN_ROWS;

/** The atoms in use, the strongest first; those in too few rows come last. */
function ranked(w, scale) {
  const active = [];
  for (let n = 0; n < N_ATOMS; n++) if (w[n] > 0) active.push(n);
  return active.sort((p, q) =>
    isCommon(q) - isCommon(p) || strength(q, w, scale) - strength(p, w, scale) || w[q] - w[p] || p - q);
}

// --- the similarity of two items ---------------------------------------------------------------

function valuesOf(item) {
  const values = new Map();
  for (let n = items.start[item]; n < items.start[item + 1]; n++) {
    values.set(items.feature[n], items.value[n]);
  }
  return values;
}

const regionOf = item => (regions ? items.region[item] : -1);

/** What adds up to the similarity of the queries of a region; -1 is none. */
function partsOf(region, blocks) {
  const shared = { w: blocks[0], scale: model.scale, isLocal: false };
  return region < 0 ? [shared] : [shared, { w: blocks[1 + region], scale: regions.scale, isLocal: true }];
}

function explain(x, y, parts) {
  const shared = [];
  if (model.prior > 0) {
    for (const [f, value] of x) {
      if (y.has(f)) shared.push({ feature: f, value: model.prior * value * y.get(f) });
    }
  }
  const pairs = [];
  for (const { w, scale, isLocal } of parts) for (let n = 0; n < N_ATOMS; n++) {
    if (!(w[n] > 0)) continue;
    const i = atoms.i[n], j = atoms.j[n], sign = atoms.sign[n];
    const left = (x.get(i) ?? 0) + sign * (x.get(j) ?? 0);
    if (left === 0) continue;
    const right = (y.get(i) ?? 0) + sign * (y.get(j) ?? 0);
    if (right !== 0) pairs.push({ atom: n, isLocal, value: scale * w[n] * left * right });
  }
  const total = parts => parts.reduce((sum, part) => sum + part.value, 0);
  const [plain, learned] = [total(shared), total(pairs.filter(({ isLocal }) => !isLocal))];
  const local = total(pairs.filter(({ isLocal }) => isLocal));
  return { shared, pairs, plain, learned, local, total: plain + learned + local };
}
