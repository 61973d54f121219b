// --- documents: their values by rows, and where each feature is --------------------------------

const N_SHOWN = 10;
const N_REASONS = 4;
const STEEPNESS = 3; // of class scores, and the smallest that counts
const SMALLEST_SCORE = 0.01;

const N = data.sizes.length;
const N_FEATURES = data.names.length;
const N_WORDS = data.n_words;

const start = new Uint32Array(N + 1);
for (let row = 0; row < N; row++) start[row + 1] = start[row] + data.sizes[row];
const feature = new Uint32Array(start[N]);
const value = new Float32Array(start[N]);
const rowOf = new Uint32Array(start[N]);
for (let row = 0; row < N; row++) {
  let f = 0;
  for (let n = start[row]; n < start[row + 1]; n++) {
    f += data.steps[n];
    feature[n] = f;
    value[n] = data.values[n] * data.value_step[row];
    rowOf[n] = row;
  }
}

// The places of the values of each feature.
const first = new Uint32Array(N_FEATURES + 1);
for (const f of feature) first[f + 1]++;
for (let f = 0; f < N_FEATURES; f++) first[f + 1] += first[f];
const places = new Uint32Array(feature.length);
const filled = first.slice();
for (let n = 0; n < feature.length; n++) places[filled[feature[n]]++] = n;

const numberOf = new Map();
for (let f = 0; f < N_WORDS; f++) numberOf.set(data.names[f], f);

// The atoms of each feature.
const atomsOf = new Map();
for (let n = 0; n < data.i.length; n++) {
  for (const f of [data.i[n], data.j[n]]) {
    if (!atomsOf.has(f)) atomsOf.set(f, []);
    atomsOf.get(f).push(n);
  }
}

function valuesOf(row) {
  const values = new Map();
  for (let n = start[row]; n < start[row + 1]; n++) values.set(feature[n], value[n]);
  return values;
}

// --- a query as a row --------------------------------------------------------------------------

/** The values of a row divided by its length; by 1 where it has none. */
function atUnitLength(values) {
  const length = Math.hypot(...values.values()) || 1;
  return new Map([...values].map(([f, x]) => [f, x / length]));
}

/** How often a text has each known word, and the words that are not known. */
function countWords(text) {
  const counts = new Map();
  const unknown = new Set();
  let nWords = 0;
  const runs = piecesOf(text).filter(pieces => pieces.length);
  const count = (name, isWord) => {
    const f = numberOf.get(name);
    if (f !== undefined) counts.set(f, (counts.get(f) ?? 0) + 1);
    else if (isWord) unknown.add(name);
  };
  for (const pieces of runs) {
    for (const piece of pieces) {
      if (!isPiece(piece)) continue;
      nWords++;
      count(piece, true);
    }
  }
  const words = runs.filter(pieces => pieces.length > 1 || isPiece(pieces[0]));
  const longest = data.reader.unit === "characters" ? 1 : data.words.ngrams;
  for (let n = 2; n <= longest; n++) {
    for (let k = 0; k + n <= words.length; k++) {
      const sequence = words.slice(k, k + n);
      if (sequence.every(pieces => pieces.length === 1)) count(sequence.join(" "), false);
    }
  }
  return { counts, unknown: [...unknown], nWords };
}

/** Whether a piece counts: a single letter of a script with spaces is no word. */
const isPiece = piece => piece.length > 1 || numberOf.has(piece) || isSpaceless(piece);
const spacelessLetter = new RegExp(`^[${data.reader.spaceless}]`, "u");
const isSpaceless = piece => spacelessLetter.test(piece);

/** The weights of words: TF-IDF, or BM25, of queries as counts where it ranks by lengths. */
function weighted(counts) {
  const { weights, idf, norm, k1, b, average_length: average } = data.words;
  let length = 0;
  for (const count of counts.values()) length += count;
  const penalty = k1 * (1 - b + b * (average ? length / average : 1));
  const values = new Map();
  for (const [f, count] of counts) {
    const saturated = norm ? (k1 + 1) * count / (count + penalty) : count;
    const isTfidf = weights === "tfidf";
    values.set(f, isTfidf ? (1 + Math.log(count)) * idf[f] : Math.sqrt(idf[f]) * saturated);
  }
  return atUnitLength(values);
}

/** Words with their class scores, as the classifier of the model gives them. */
function withScores(words) {
  const { scores } = data;
  if (!scores) return words;
  const unit = atUnitLength(words);
  const nSeen = scores.columns.length;
  let values = Array.from(scores.intercept);
  for (const [f, x] of unit) {
    const place = nSeen === N_WORDS ? f : scores.columns.indexOf(f);
    if (place < 0) continue;
    for (let c = 0; c < values.length; c++) values[c] += x * scores.coef[c * nSeen + place];
  }
  if (values.length === 1) values = [-values[0], values[0]];
  let squashed = values.map((v, c) => [c, (1 / (1 + Math.exp(-STEEPNESS * v))) ** 2]);
  if (scores.n_scores !== null) {
    squashed.sort((p, q) => q[1] - p[1]);
    squashed = squashed.slice(0, scores.n_scores);
  }
  const length = Math.hypot(...squashed.map(([, v]) => v)) || 1;
  const result = new Map(unit);
  for (const [c, v] of squashed) {
    const score = v / length;
    if (score >= SMALLEST_SCORE) result.set(N_WORDS + scores.places[c], scores.weight * score);
  }
  return result;
}

/** A row as the similarity compares it. */
const compared = values => (data.norm ? atUnitLength(values) : values);

/** The weights of the plain dot product times x, plus Mx. */
function rewritten(x) {
  const result = new Map();
  const add = (f, v) => result.set(f, (result.get(f) ?? 0) + v);
  for (const [f, v] of x) if (data.fixed[f]) add(f, data.fixed[f] * v);
  const atoms = new Set();
  for (const f of x.keys()) for (const n of atomsOf.get(f) ?? []) atoms.add(n);
  for (const n of atoms) {
    const v = data.weight[n] * ((x.get(data.i[n]) ?? 0) + data.sign[n] * (x.get(data.j[n]) ?? 0));
    add(data.i[n], v);
    add(data.j[n], data.sign[n] * v);
  }
  return result;
}

function dot(x, y) {
  let sum = 0;
  for (const [f, v] of x) sum += v * (y.get(f) ?? 0);
  return sum;
}

// --- the search --------------------------------------------------------------------------------

/** The dot product of each document with a query, by the places of its features. */
function products(query, isTaken = () => true) {
  const sums = new Float64Array(N);
  for (const [f, v] of query) {
    if (!isTaken(f)) continue;
    for (let k = first[f]; k < first[f + 1]; k++) sums[rowOf[places[k]]] += v * value[places[k]];
  }
  return sums;
}

const isWord = f => f < N_WORDS;

/** Both scores of all documents, and what reasons are divided by. */
function scoresOf(words, full) {
  const x = compared(full);
  const asLearned = rewritten(x);
  const learned = products(asLearned);
  const isCosine = data.ranking === "cosine";
  const own = isCosine ? Math.sqrt(dot(x, asLearned)) || 1 : 1;
  if (isCosine) for (let row = 0; row < N; row++) learned[row] /= own * data.own_lengths[row];
  const y = atUnitLength(words);
  const plain = products(y);
  for (let row = 0; row < N; row++) plain[row] /= data.plain_lengths[row];
  return { x, y, own, learned, plain };
}

/** The rows of the largest values, of equals the first. */
function largest(values, leftOut) {
  const rows = [];
  for (let row = 0; row < N; row++) if (row !== leftOut && values[row] > 1e-9) rows.push(row);
  return rows.sort((p, q) => values[q] - values[p] || p - q).slice(0, N_SHOWN);
}

function rankIn(values, row, leftOut) {
  let rank = 1;
  for (let other = 0; other < N; other++) {
    if (other !== leftOut && values[other] > values[row]) rank++;
  }
  return rank;
}

// --- reasons -----------------------------------------------------------------------------------

/** What each word and pair adds to the learned score; `taught` is what is learned of it. */
function learnedReasons({ x, own }, row) {
  const y = valuesOf(row);
  const divisor = own * (data.ranking === "cosine" ? data.own_lengths[row] : 1);
  const reasons = new Map();
  const add = (i, j, v, isTaught) => {
    if (!v) return;
    const key = i <= j ? `${i} ${j}` : `${j} ${i}`;
    const reason = reasons.get(key) ?? { i: Math.min(i, j), j: Math.max(i, j), value: 0, taught: 0 };
    reason.value += v / divisor;
    if (isTaught) reason.taught += v / divisor;
    reasons.set(key, reason);
  };
  for (const [f, v] of x) add(f, f, data.fixed[f] * v * (y.get(f) ?? 0), false);
  const atoms = new Set();
  for (const f of x.keys()) for (const n of atomsOf.get(f) ?? []) atoms.add(n);
  for (const n of atoms) {
    const [i, j, sign, w] = [data.i[n], data.j[n], data.sign[n], data.weight[n]];
    const [xi, xj, yi, yj] = [x.get(i) ?? 0, x.get(j) ?? 0, y.get(i) ?? 0, y.get(j) ?? 0];
    add(i, i, w * xi * yi, true);
    add(j, j, w * xj * yj, true);
    add(i, j, sign * w * (xi * yj + xj * yi), true);
  }
  return [...reasons.values()];
}

/** What each word adds to the plain cosine. */
function plainReasons({ y }, row) {
  const values = valuesOf(row);
  return [...y].filter(([f]) => values.has(f)).map(([f, v]) => (
    { i: f, j: f, value: v * values.get(f) / data.plain_lengths[row], taught: 0 }));
}

// --- what is shown: strings only ever become text ------------------------------------------------

/** A text with what cannot be printed, or turns the direction of others, as escapes. */
const shown = text => text.replace(/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu,
  character => `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`);

function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, setting] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", setting);
    else node.setAttribute(name, setting);
  }
  node.append(...children);
  return node;
}

const whole = n => n.toLocaleString("en-US");

function reasonNode({ i, j, value: v, taught }) {
  const name = i === j ? data.names[i] : `${data.names[i]} ~ ${data.names[j]}`;
  const kinds = [Math.abs(taught) > Math.abs(v - taught) ? "taught" : "", v < 0 ? "lower" : ""];
  const size = Math.abs(v).toFixed(2);
  return h("span", { class: kinds.join(" ").trim(), dir: "auto" }, `${shown(name)} ${v < 0 ? "−" : "+"}${size}`);
}

/** A text with the words of the query marked. */
function marked(text, words) {
  if (!words.size || data.reader.unit === "characters") return [shown(text)];
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(RUNS)) {
    const name = match[0].normalize("NFKC").toLowerCase();
    const isHit = words.has(name) || (match[1] !== undefined && piecesOf(match[0]).flat().some(p => words.has(p)));
    if (!isHit) continue;
    nodes.push(shown(text.slice(end, match.index)), h("mark", {}, shown(match[0])));
    end = match.index + match[0].length;
  }
  return [...nodes, shown(text.slice(end))];
}

function hitNode(scores, row, kind, leftOut, words) {
  const other = kind === "learned" ? "plain" : "learned";
  const otherName = other === "plain" ? "by cosine" : "as learned";
  const reasons = (kind === "learned" ? learnedReasons : plainReasons)(scores, row)
    .sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
  const rank = rankIn(scores[other], row, leftOut);
  const head = h("div", { class: "head" },
    h("span", { class: "score" }, scores[kind][row].toFixed(3)),
    h("span", { class: "id", dir: "auto" }, shown(data.ids?.[row] ?? `row ${data.rows[row]}`)));
  if (data.labels) head.append(h("span", { class: "label", dir: "auto" }, shown(data.labels[row])));
  head.append(h("span", { class: "other" }, `${whole(rank)}. ${otherName}`));
  head.append(h("button", { class: "like", type: "button", onclick: () => searchLike(row) }, "more like this"));
  const why = h("p", { class: "why" });
  for (const reason of reasons.slice(0, N_REASONS)) why.append(reasonNode(reason), "  ");
  const others = reasons.slice(N_REASONS);
  if (others.length) {
    const sum = others.reduce((total, { value: v }) => total + v, 0);
    why.append(`and ${whole(others.length)} more ${sum < 0 ? "−" : "+"}${Math.abs(sum).toFixed(2)}`);
  }
  const text = data.texts ? [h("p", { class: "text", dir: "auto" }, ...marked(data.texts[row], words))] : [];
  return h("li", { "data-row": data.rows[row] }, head, ...text, why);
}

function show(scores, leftOut, words) {
  for (const kind of ["learned", "plain"]) {
    const rows = largest(scores[kind], leftOut);
    $(kind).replaceChildren(...rows.map(row => hitNode(scores, row, kind, leftOut, words)));
    if (!rows.length) $(kind).append(h("li", {}, "Nothing."));
  }
}

function searchFor(text) {
  const { counts, unknown, nWords } = countWords(text);
  const quoted = unknown.slice(0, 10).map(word => `“${shown(word)}”`).join(", ");
  if (!counts.size) {
    $("note").textContent = quoted ? `No document has ${quoted}: try other words.` : "Type a word.";
    $("learned").replaceChildren();
    $("plain").replaceChildren();
    return;
  }
  const isKnown = nWords - unknown.length;
  $("note").textContent = quoted && data.reader.unit !== "characters"
    ? `No document has ${quoted}: the scores rest on ${isKnown} of ${nWords} words.` : "";
  const words = weighted(counts);
  show(scoresOf(words, withScores(words)), -1, new Set([...counts.keys()].map(f => data.names[f])));
}

/** Search with a document, which is left out. */
function searchLike(row) {
  const values = valuesOf(row);
  const words = new Map([...values].filter(([f]) => isWord(f)));
  $("query").value = "";
  $("note").textContent = `Like ${shown(data.ids?.[row] ?? `row ${data.rows[row]}`)}:`;
  show(scoresOf(words, values), row, new Set());
  window.scrollTo(0, 0);
}

function aboutPage() {
  const all = N === data.n_documents ? `${whole(N)} documents`
    : `${whole(N)} of ${whole(data.n_documents)} documents, spread evenly`;
  const score = data.ranking === "cosine" ? "the learned cosine" : "the learned similarity";
  return `${all}, searched in this browser by ${score} and by the plain cosine. ` +
    "Below each hit are the words and pairs that its score is the sum of: “a ~ b” is a pair, " +
    "a in the query and b in the document or the other way; bold ones are learned.";
}

$("about").textContent = aboutPage();
$("form").addEventListener("submit", event => {
  event.preventDefault();
  searchFor($("query").value);
});
for (const node of $("form").elements) node.disabled = false;
$("query").focus();
