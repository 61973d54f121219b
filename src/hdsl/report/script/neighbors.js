// --- neighbours of a row or of typed words, before and after -----------------------------------

const N_SHOWN = 6;

/** Scores from which on two items have something in common that is seen. */
const LEAST_SCORE = 0.02;

const allItems = items ? Array.from(items.rows, (_, item) => item) : [];

function nameOf(item) {
  const label = items.labels ? `, ${items.labels[item]}` : "";
  return rowName(item) + label;
}

const rowName = item => items.ids?.[item] ?? `Row ${items.rows[item]}`;

function hueOf(item) {
  if (!classes || !items.labels) return hue(-1);
  return hue(classes.names.indexOf(items.labels[item]));
}

/** The features of an item, the largest values first; scores of classes are not shown as words. */
const strongest = values => [...values].filter(([f]) => !isScore(f))
  .sort((p, q) => Math.abs(q[1]) - Math.abs(p[1]));

function snippet(item, length) {
  if (items.texts) return short(items.texts[item].replace(/\s+/g, " ").trim(), length);
  const words = strongest(valuesOf(item)).slice(0, 12).map(([f]) => names[f]);
  return short(words.join(", "), length);
}

const titleOf = item => `${nameOf(item)}: ${snippet(item, 70)}`;

// What is searched for: an item, or words that were typed, then item is -1.
const query = { item: 0, text: "", values: null };
const queryValues = () => query.values ?? valuesOf(query.item);

const byWord = new Map(names.map((name, f) => [name.toLowerCase(), f]).filter(([, f]) => !isScore(f)));

/** Whether a word counts: single letters do where a feature has their name. */
const isWord = word => byWord.has(word) || word.length > 1;

/** Words of a text that the page knows, with TF-IDF weights at unit length, and the others. */
function valuesOfWords(text) {
  const runs = piecesOf(text).map(pieces => pieces.filter(isWord)).filter(pieces => pieces.length);
  const words = runs.flat();
  const known = new Set();
  const nOf = new Map();
  const count = (name, pieces) => {
    const f = byWord.get(name);
    if (f === undefined) return;
    nOf.set(f, (nOf.get(f) ?? 0) + 1);
    for (const piece of pieces) known.add(piece);
  };
  for (const word of words) count(word, [word]);
  for (let n = 2; n <= 3; n++) {
    for (let k = 0; k + n <= runs.length; k++) {
      const sequence = runs.slice(k, k + n);
      if (sequence.every(pieces => pieces.length === 1)) count(sequence.join(" "), sequence.flat());
    }
  }
  const unknown = [...new Set(words)].filter(word => !known.has(word));
  return { values: weighted(nOf), unknown, nWords: new Set(words).size };
}

/** Numbers of words as TF-IDF weights at unit length. */
function weighted(nOf) {
  const values = new Map();
  for (const [f, n] of nOf) {
    const weight = data.query_weights ? data.query_weights[f] : 1;
    values.set(f, (1 + Math.log(n)) * weight);
  }
  const length = Math.hypot(...values.values()) || 1;
  for (const [f, value] of values) values.set(f, value / length);
  return values;
}

/** Mx, and Wz of an embedding: dot products with it are what is learned of similarities. */
function learnedTerms(x) {
  const result = new Map();
  const add = (f, value) => result.set(f, (result.get(f) ?? 0) + value);
  if (x.along) result.along = weighedAlong(x.along, view.w);
  for (let n = 0; n < N_PAIRS; n++) {
    if (!(view.w[n] > 0)) continue;
    const i = atoms.i[n];
    const j = atoms.j[n];
    const sign = atoms.sign[n];
    const value = model.scale * view.w[n] * ((x.get(i) ?? 0) + sign * (x.get(j) ?? 0));
    if (value !== 0) {
      add(i, value);
      add(j, sign * value);
    }
  }
  return result;
}

/** The fixed parts of x, each times its weight, and Mx: dot products with it are similarities. */
function rewritten(x) {
  const result = learnedTerms(x);
  for (const [f, value] of x) result.set(f, (result.get(f) ?? 0) + fixedWeight[f] * value);
  return result;
}

function dot(x, y) {
  let sum = productAlong(x.along, y.along);
  for (const [f, value] of x) sum += value * (y.get(f) ?? 0);
  return sum;
}

function selfSimilarity(x) {
  return dot(x, rewritten(x));
}

/** Similarities of each item with itself, by which the learned cosine divides. */
const selfSimilarities = () => allItems.map(item => selfSimilarity(valuesOf(item)));

/** The length of a row without class scores, 1 where it is 0. */
function lengthOf(x) {
  let sum = 0;
  for (const [f, value] of x) if (!isScore(f)) sum += value * value;
  return Math.sqrt(sum) || 1;
}

const lengths = allItems.map(item => lengthOf(valuesOf(item)));

/** Whether the model ranks by its similarity as it is, not by the learned cosine. */
const isByProduct = model.ranking === "product";

/** What items are ranked by: the learned cosine, or the similarity as it is. */
function scoreOf(similarity, selfSimilarityOfQuery, item) {
  if (isByProduct) return similarity;
  const learnedLengths = Math.sqrt(selfSimilarityOfQuery * view.selfSimilarities[item]);
  return learnedLengths > 0 ? similarity / learnedLengths : 0;
}

// --- what was judged relevant for known queries ---------------------------------------------------

const { memory } = data;

/** Known queries that are named for a match. */
const N_REMEMBERED = 3;

/** How close x is to each known query, by cosine, and how much each counts. */
function closenessTo(x) {
  const nQueries = memory.names.length;
  const similarities = new Float64Array(nQueries);
  const length = lengthOf(x);
  for (let k = 0; k < nQueries; k++) {
    for (let n = memory.start[k]; n < memory.start[k + 1]; n++) {
      similarities[k] += memory.value[n] * (x.get(memory.feature[n]) ?? 0) / length;
    }
  }
  const weights = similarities.map(similarity => Math.max(similarity, 0) ** memory.power);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const divisor = Math.sqrt(sum) * Math.sqrt(sum + memory.density) || 1;
  return { similarities, weights: weights.map(weight => memory.weight * weight / divisor) };
}

/** What is remembered for x: a value for each judgement of an item, those that count. */
function remembered(x) {
  if (!memory) return [];
  const { similarities, weights } = closenessTo(x);
  const judgements = Array.from(memory.item, (item, n) => ({
    item,
    name: memory.names[memory.query[n]],
    similarity: similarities[memory.query[n]],
    value: weights[memory.query[n]] * memory.share[n],
  }));
  return judgements.filter(({ value }) => value > 0);
}

/** Name the known queries that the second item was judged relevant for. */
function showRemembered(x, item) {
  const known = remembered(x).filter(judgement => judgement.item === item)
    .sort((p, q) => q.value - p.value);
  const sentences = known.slice(0, N_REMEMBERED).map(({ name, similarity, value }) =>
    `${signed(value)} judged relevant for “${name}”, a query like this (${similarity.toFixed(2)}). `);
  const others = known.slice(N_REMEMBERED);
  if (others.length) sentences.push(`${signed(total(others))} for ${others.length} other known queries.`);
  $("remembered").textContent = sentences.join("");
}

/** The other items with their cosine, score as learned, and ranks by both, in the order of items. */
function ranksFor(x, leftOut) {
  const rewrittenX = rewritten(x);
  const self = dot(x, rewrittenX);
  const length = lengthOf(x);
  const others = allItems.filter(item => item !== leftOut);
  const added = new Map();
  for (const { item, value } of remembered(x)) added.set(item, (added.get(item) ?? 0) + value);
  const entries = others.map(item => {
    let product = 0;
    let learnedProduct = 0;
    for (let n = items.start[item]; n < items.start[item + 1]; n++) {
      const f = items.feature[n];
      const value = items.value[n];
      if (!isScore(f)) product += value * (x.get(f) ?? 0);
      learnedProduct += value * (rewrittenX.get(f) ?? 0);
    }
    const learned = scoreOf(learnedProduct, self, item);
    return {
      item,
      plain: product / length / lengths[item],
      learned,
      score: learned + (added.get(item) ?? 0),
    };
  });
  addRanks(entries, "before", "plain");
  addRanks(entries, "after", "score");
  return entries;
}

/** Number entries from 1 by a score, the largest first. */
function addRanks(entries, rank, score) {
  const sorted = [...entries].sort((p, q) => q[score] - p[score] || p.item - q.item);
  sorted.forEach((entry, n) => {
    entry[rank] = n + 1;
  });
}

/** The first entries by one of the ranks. */
const firstOf = (entries, rank, n) =>
  entries.filter(entry => entry[rank] <= n).sort((p, q) => p[rank] - q[rank]);

// --- what the search begins with ---------------------------------------------------------------

/**
 * The row to begin with: its plain neighbours are real and wrong, and its learned ones are right
 * and have words in common with it. Without labels, one whose neighbours change most.
 */
function firstExample() {
  let best = { gain: -Infinity, item: 0 };
  for (const item of allItems) {
    const gain = gainOfExample(item);
    if (gain > best.gain) best = { gain, item };
  }
  return best.item;
}

/** How well a row shows what was learned. */
function gainOfExample(item) {
  const entries = ranksFor(valuesOf(item), item);
  const plain = firstOf(entries, "before", N_SHOWN);
  const learned = firstOf(entries, "after", N_SHOWN);
  const scores = [...plain.map(entry => entry.plain), ...learned.map(entry => entry.score)];
  const areReal = scores.every(score => score > LEAST_SCORE);
  const sharing = learned.filter(entry => entry.plain > LEAST_SCORE);
  const likeness = sharing.reduce((sum, entry) => sum + entry.plain, 0) / N_SHOWN; // below 1
  return (areReal ? 100 : 0) + likeness + changeOf(item, plain, sharing);
}

/** How many neighbours more are right as learned, or without labels how many are others. */
function changeOf(item, plain, sharing) {
  if (!items.labels) {
    return plain.filter(({ after }) => after > N_SHOWN).length + sharing.length;
  }
  const isRight = entry => items.labels[entry.item] === items.labels[item];
  return sharing.filter(isRight).length - plain.filter(isRight).length;
}

/** The neighbour whose match is explained at first. */
const firstNeighbor = () => firstOf(ranksFor(queryValues(), query.item), "after", 1)[0].item;

function prepareNeighbors() {
  if (allItems.length < 2) {
    $("items-note").append("The report was written without rows to compare.");
    $("comparison").hidden = true;
    return;
  }
  $("items-note").append(itemsNote());
  $("titles").append(...allItems.map(item => h("option", { value: titleOf(item) })));
  if (classes) $("legend").append(...legendOfClasses());
  view.selfSimilarities = selfSimilarities();
  query.item = firstExample();
  view.second = firstNeighbor();
  $("query").placeholder = placeholder();
  $("query").value = titleOf(query.item);
  $("query").addEventListener("input", () => {
    if (itemTitled($("query").value) >= 0) search();
  });
  $("query").addEventListener("change", search);
  $("second").addEventListener("change", () => {
    const item = itemTitled($("second").value);
    if (item >= 0) view.second = item;
    showItems();
  });
  for (const id of ["query", "second"]) {
    $(id).addEventListener("focus", event => event.target.select());
  }
  $("more-parts").addEventListener("click", () => {
    view.allParts = true;
    showItems();
  });
  const heads = { "Word or pair": "", Learned: "extra", Plain: "extra", Adds: "effect" };
  $("parts").tHead.append(headLine(heads));
  $("terms").tHead.append(headLine({ Term: "", Learned: "extra", Plain: "extra", Weight: "effect" }));
}

/** The head of a table: its labels, each with the class of its column. */
const headLine = heads => h("tr", {}, ...Object.entries(heads).map(([label, kind]) =>
  h("th", { scope: "col", class: kind }, label)));

/** Which rows the page has, and what can be typed. */
function itemsNote() {
  const nItems = allItems.length;
  let note = `All ${whole(counts.n_rows)} rows are on this page.`;
  if (nItems < counts.n_rows) {
    note = `This page has ${whole(nItems)} of the ${whole(counts.n_rows)} rows, spread evenly: ` +
      "search finds only these.";
  }
  const ranked = isByProduct ? "learned similarity" : "learned cosine";
  note += ` They are compared by plain cosine, and by the ${ranked} at the iteration of the slider. `;
  const words = data.has_names ? "words, or " : "";
  note += `Type ${words}the ${items.ids ? "id" : "number"} of a row.`;
  if (model.n_scores && data.has_names) {
    note += " Typed words have no class scores here: pairs of words count, " +
      "pairs with a class do not. The command hdsl search uses both.";
  }
  note += " To find one particular row, read the left list: hdsl search --plain makes it of all rows.";
  return note;
}

function legendOfClasses() {
  const tinted = (name, n) => h("span", { class: `tinted ${hue(n)}` }, name);
  const legend = ["Colours: a row by its class, a feature by the class that has most of it. "];
  classes.names.forEach((name, n) => legend.push(tinted(name, n), " "));
  const hasOthers = items.labels?.some(label => !classes.names.includes(label));
  if (hasOthers) legend.push(tinted("other", -1));
  return legend;
}

/** What the box says where nothing is typed: words of the first example, or the first row. */
function placeholder() {
  const row = rowName(0);
  if (!data.has_names) return `“${row}”`;
  const words = strongest(valuesOf(query.item)).slice(0, 2).map(([f]) => names[f]);
  return `Words, such as “${words.join(" ")}”, or “${row}”`;
}

// --- the search --------------------------------------------------------------------------------

/** The item with a title, or the only one that has the typed text in it; -1 if there is none. */
function itemTitled(text) {
  const typed = text.trim();
  const isNamed = item => titleOf(item) === text || nameOf(item) === text ||
    [items.ids?.[item], `Row ${items.rows[item]}`, String(items.rows[item])].includes(typed);
  const exact = allItems.find(isNamed);
  if (exact !== undefined) return exact;
  if (data.has_names) return -1; // the text is words
  const matching = allItems.filter(item => titleOf(item).toLowerCase().includes(typed.toLowerCase()));
  return matching.length === 1 ? matching[0] : -1;
}

/** Search for what the box says. */
function search() {
  const text = $("query").value;
  const item = itemTitled(text);
  $("unknown").textContent = item >= 0 ? searchForItem(item) : searchForWords(text);
  view.allParts = false;
  view.second = query.item >= 0 || query.values.size ? firstNeighbor() : -1;
  showItems();
}

/** Search for an item; nothing of it is unknown. */
function searchForItem(item) {
  query.item = item;
  query.text = "";
  query.values = null;
  return "";
}

/** Search for typed words; return what to say of those that the page does not know. */
function searchForWords(text) {
  query.item = -1;
  query.text = text;
  query.values = new Map();
  if (!data.has_names) return "No row, or more than one, has this in its title.";
  const { values, unknown, nWords } = valuesOfWords(text);
  query.values = values;
  const quoted = unknown.map(word => `“${word}”`).join(", ");
  if (!values.size) return quoted ? `Nothing on this page has ${quoted}.` : "Type a word.";
  if (!quoted) return "";
  return `Nothing on this page has ${quoted}: the scores rest on ` +
    `${nWords - unknown.length} of ${nWords} words.`;
}

// The two lists: their ids are the ranks that they are sorted by.
const LISTS = [
  { id: "before", other: "after", score: "plain", otherName: "as learned" },
  { id: "after", other: "before", score: "score", otherName: "by cosine" },
];

/** The neighbours of the query, by cosine and as learned; none has a score of 0. */
function showNeighbors() {
  view.selfSimilarities = selfSimilarities();
  const x = queryValues();
  const entries = x.size ? ranksFor(x, query.item) : [];
  for (const list of LISTS) {
    const first = firstOf(entries, list.id, N_SHOWN).filter(entry => entry[list.score] > 0);
    $(list.id).replaceChildren(...first.map((entry, n) => neighborEntry(x, entry, n, list)));
    if (first.length < N_SHOWN) {
      const note = first.length ? "No other row has anything in common." : "No row found.";
      $(list.id).append(h("li", { class: "note" }, note));
    }
  }
}

/** A neighbour with its score and its rank in the other list; pressing it explains the match. */
function neighborEntry(x, entry, n, list) {
  const { item } = entry;
  const choose = () => {
    view.second = item;
    view.allParts = false;
    showItems();
    $(list.id).children[n].firstElementChild.focus();
  };
  const button = h("button",
    { type: "button", "aria-pressed": String(item === view.second), onclick: choose },
    h("b", {}, number(entry[list.score], 3)), " ",
    h("span", { class: `tinted ${hueOf(item)}` }, nameOf(item)));
  if (entry[list.other] !== entry[list.id]) {
    const kind = entry[list.other] > N_SHOWN ? "moved new" : "moved";
    const rank = `${ordinal(entry[list.other])} ${list.otherName}`;
    button.append(h("span", { class: kind }, rank));
  }
  button.append(h("span", { class: "snippet" }, snippet(item, 110)));
  return h("li", {}, hint(button, () => reasons(x, item)));
}

// --- why two items match -----------------------------------------------------------------------

/** The words behind the score of a class in some rows, as a note; nothing for other features. */
function behind(features, ...rows) {
  const words = new Set();
  for (const f of features.filter(isScore)) {
    for (const item of rows) {
      for (const word of items.words?.[item]?.[data.columns[f]] ?? []) words.add(word);
    }
  }
  if (!words.size) return [];
  return [h("span", { class: "note" }, ` by ${[...words].slice(0, 5).join(", ")}`)];
}

/** What a reason is: a feature, a pair of features, or a fixed part as a whole. */
function titleOfReason({ features, fixedPart }, ...rows) {
  if (fixedPart) return [capitalized(titleOfPart(fixedPart))];
  const [i, j] = features;
  if (j === undefined) return [feature(i), ...behind(features, ...rows)];
  const pair = h("span", { class: "pair" }, feature(i), " ~ ", feature(j));
  return [pair, ...behind(features, ...rows)];
}

/** The largest parts of a similarity, for a hint. */
function reasons(x, item) {
  const all = explain(x, valuesOf(item), view.w).reasons;
  if (!all.length) return ["Nothing in common"];
  const lines = all.slice(0, 5).map(reason =>
    h("div", {}, ...titleOfReason(reason, query.item, item), ` ${signed(reason.value)}`));
  const others = all.slice(5);
  if (others.length) {
    lines.push(h("div", {}, `and ${others.length} more ${signed(total(others))}`));
  }
  return lines;
}

// --- the terms of typed words --------------------------------------------------------------------

const N_TERMS = 20;

/** Smaller weights are not listed; the largest is 1. */
const LEAST_WEIGHT = 0.01;

/** The terms that typed words are searched by, plain and learned; the largest weight of all is 1. */
function termsOf(x) {
  const learned = learnedTerms(x);
  const terms = [...rewritten(x)].filter(([f, weight]) => weight !== 0 && !isScore(f))
    .sort((p, q) => Math.abs(q[1]) - Math.abs(p[1]));
  const largest = terms.length ? Math.abs(terms[0][1]) : 1;
  return terms.map(([f, weight]) => ({
    feature: f,
    plain: fixedWeight[f] * (x.get(f) ?? 0) / largest,
    learned: (learned.get(f) ?? 0) / largest,
    weight: weight / largest,
  }));
}

/** The terms of typed words as a table: those typed, and those that were learned. */
function showTerms() {
  const isTyped = query.item < 0 && query.values?.size > 0;
  $("expansion").hidden = !isTyped;
  if (!isTyped) return;
  const terms = termsOf(query.values);
  const large = terms.filter(term => Math.abs(term.weight) >= LEAST_WEIGHT);
  const shown = large.slice(0, N_TERMS).sort((p, q) => q.weight - p.weight);
  const addend = amount => (amount === 0 ? "" : signed(amount));
  $("terms").tBodies[0].replaceChildren(...shown.map(term => {
    const isOfQuery = query.values.has(term.feature);
    const side = term.weight > 0 ? "together" : "apart";
    return h("tr", {},
      h("td", {}, feature(term.feature), isOfQuery ? "" : h("span", { class: "note" }, " added")),
      h("td", { class: "extra" }, addend(term.learned)),
      h("td", { class: "extra" }, addend(term.plain)),
      h("td", { class: "effect" }, gauge(signed(term.weight), Math.abs(term.weight), side)));
  }));
  const nAdded = terms.filter(term => !query.values.has(term.feature)).length;
  const count = shown.length < terms.length ? `The ${shown.length} largest of ${whole(terms.length)} terms` :
    counted(terms.length, "term");
  $("terms-note").textContent = `${count}, ${whole(nAdded)} of them added. The weight is what a document ` +
    "gains by the term, and the largest is 1; hdsl search --expand lists them for a search engine.";
}

function showItems() {
  if ($("comparison").hidden) return;
  showNeighbors();
  showTerms();
  $("match").hidden = view.second < 0;
  if (view.second < 0) return;
  const x = queryValues();
  const y = valuesOf(view.second);
  const why = explain(x, y, view.w);
  $("second").value = titleOf(view.second);
  showSum(why, isByProduct ? null : learnedCosine(x, view.second));
  showRemembered(x, view.second);
  showReasons(why.reasons, x, y);
  const marked = namesIn(why);
  if (query.item >= 0) showText($("first-text"), query.item, marked);
  else $("first-text").replaceChildren(query.text);
  showText($("second-text"), view.second, marked);
}

/** The learned cosine of the query with an item, 1 of an item with itself. */
function learnedCosine(x, item) {
  const entry = ranksFor(x, query.item).find(other => other.item === item);
  return entry ? entry.learned : 1;
}

function showSum(why, cosine) {
  const terms = ["The similarity is ", h("b", { id: "total" }, number(why.total, 4)), " = "];
  for (const { fixedPart, value } of why.fixed) {
    terms.push(h("b", {}, number(value, 4)), ` ${titleOfPart(fixedPart)} + `);
  }
  terms.push(h("b", {}, number(why.learned, 4)), " learned");
  if (cosine !== null) {
    terms.push("; the learned cosine is ", h("b", { id: "cosine" }, number(cosine, 3)));
  }
  terms.push(".");
  $("sum").replaceChildren(...terms);
}

/** The names of all features in an explanation, in lower case. */
const namesIn = why =>
  new Set(why.reasons.flatMap(({ features }) => features.map(f => names[f].toLowerCase())));

/** Show the text of an item, or its features; the words of a set are marked. */
function showText(holder, item, marked) {
  if (!items.texts) {
    const features = strongest(valuesOf(item)).slice(0, 80);
    holder.replaceChildren(...features.flatMap(([f, value]) => {
      const tag = marked.has(names[f].toLowerCase()) ? "mark" : "span";
      return [h(tag, {}, names[f]), ` ${number(value)}  `];
    }));
    return;
  }
  const pieces = items.texts[item].split(/([\p{L}\p{N}_]+)/u);
  holder.replaceChildren(...pieces.map(piece =>
    marked.has(piece.toLowerCase()) ? h("mark", {}, piece) : piece));
}

/** The reasons of the similarity: few at first, all where they are asked for. */
function showReasons(all, x, y) {
  const largest = all.length ? Math.abs(all[0].value) : 1;
  const large = all.filter(({ value }) => Math.abs(value) >= 0.005 * largest).slice(0, 12);
  const shown = view.allParts ? all : large;
  const rows = shown.map(reason => rowOfReason(reason, largest, x, y));
  $("more-parts").hidden = rows.length === all.length;
  $("more-parts").textContent = `Show all ${all.length} parts`;
  if (!rows.length) {
    const note = "The two have nothing in common that counts.";
    rows.push(h("tr", {}, h("td", { colspan: 4 }, note)));
  }
  $("parts").tBodies[0].replaceChildren(...rows);
}

/** A reason, how much of it is learned and how much is plain; a hint has the values of both items. */
function rowOfReason(reason, largest, x, y) {
  const { value } = reason;
  const bar = gauge(signed(value), Math.abs(value) / largest, value > 0 ? "together" : "apart");
  const addend = amount => (amount === 0 ? "" : signed(amount));
  const row = h("tr", {},
    h("td", {}, ...titleOfReason(reason, query.item, view.second)),
    h("td", { class: "extra" }, addend(reason.learned)),
    h("td", { class: "extra" }, addend(reason.plain)),
    h("td", { class: "effect" }, bar));
  if (!reason.features.length) return row;
  const valuesIn = values => reason.features.filter(f => values.has(f))
    .map(f => `${names[f]} ${number(values.get(f))}`).join(", ") || "none";
  return hint(row, () => [h("div", {}, `first: ${valuesIn(x)}`), h("div", {}, `second: ${valuesIn(y)}`)]);
}
