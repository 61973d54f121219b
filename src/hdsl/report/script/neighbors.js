// --- neighbours of a row or of typed words, before and after -----------------------------------

const N_SHOWN = 6;

const nameOf = item => {
  const label = items.labels ? `, ${items.labels[item]}` : "";
  return `${items.ids?.[item] ?? `Row ${items.rows[item]}`}${label}`;
};

const hueOf = item => hue(classes && items.labels ? classes.names.indexOf(items.labels[item]) : -1);

/** The features of an item, the largest values first; scores of classes are not shown as words. */
const strongest = values => [...values].filter(([f]) => !isScore(f))
  .sort((p, q) => Math.abs(q[1]) - Math.abs(p[1]));

function snippet(item, n) {
  const text = items.texts ? items.texts[item].replace(/\s+/g, " ").trim()
    : strongest(valuesOf(item)).slice(0, 12).map(([f]) => names[f]).join(", ");
  return short(text, n);
}

const titleOf = item => `${nameOf(item)}: ${snippet(item, 70)}`;

// What is searched for: an item, words that were typed, or nothing that the page knows.
const asked = { item: 0, text: "", values: null };
const askedValues = () => asked.values ?? valuesOf(asked.item);

const byWord = new Map(names.map((name, f) => [name.toLowerCase(), f]).filter(([, f]) => !isScore(f)));

/** Words of a text that the page knows, with TF-IDF weights at unit length, and the others. */
function valuesOfWords(text) {
  const words = text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [], found = new Map();
  const isKnown = new Array(words.length).fill(false);
  for (let n = 1; n <= 3; n++) {
    for (let k = 0; k + n <= words.length; k++) {
      const f = byWord.get(words.slice(k, k + n).join(" "));
      if (f === undefined) continue;
      found.set(f, (found.get(f) ?? 0) + 1);
      isKnown.fill(true, k, k + n);
    }
  }
  const weight = f => (data.query_weights ? data.query_weights[f] : 1);
  for (const [f, count] of found) found.set(f, (1 + Math.log(count)) * weight(f));
  const length = Math.hypot(...found.values()) || 1;
  for (const [f, value] of found) found.set(f, value / length);
  const unknown = [...new Set(words.filter((_, k) => !isKnown[k]))];
  return { values: found, unknown, nWords: new Set(words).size };
}

/** The fixed parts of x, each times its weight, and Mx: dot products with it are similarities. */
function rewritten(x) {
  const q = new Map();
  const add = (f, value) => q.set(f, (q.get(f) ?? 0) + value);
  for (const [f, value] of x) add(f, fixedWeight[f] * value);
  for (let n = 0; n < N_ATOMS; n++) {
    if (!(view.w[n] > 0)) continue;
    const i = atoms.i[n], j = atoms.j[n], sign = atoms.sign[n];
    const part = model.scale * view.w[n] * ((x.get(i) ?? 0) + sign * (x.get(j) ?? 0));
    if (part !== 0) { add(i, part); add(j, sign * part); }
  }
  return q;
}

function dot(x, q) {
  let sum = 0;
  for (const [f, value] of x) sum += value * (q.get(f) ?? 0);
  return sum;
}

/** Similarities of each item with itself, by which the learned cosine divides. */
const ownSimilarities = () => Array.from(items.rows, (_, item) => {
  const x = valuesOf(item);
  return dot(x, rewritten(x));
});

/** The other items with their cosine, learned cosine, and ranks by both, in the order of items. */
function ranksFor(x, leftOut) {
  const q = rewritten(x), self = dot(x, q), found = [];
  items.rows.forEach((_, item) => {
    if (item === leftOut) return;
    let plain = 0, score = 0;
    for (let n = items.start[item]; n < items.start[item + 1]; n++) {
      const f = items.feature[n], value = items.value[n];
      if (!isScore(f)) plain += value * (x.get(f) ?? 0);
      score += value * (q.get(f) ?? 0);
    }
    const length = Math.sqrt(self * view.own[item]);
    found.push({ item, plain: plain / lengthOf(x) / lengths[item], score: length > 0 ? score / length : 0 });
  });
  const rank = (name, by) => [...found].sort((p, q) => q[by] - p[by] || p.item - q.item)
    .forEach((entry, n) => { entry[name] = n + 1; });
  rank("before", "plain");
  rank("after", "score");
  return found;
}

function lengthOf(x) {
  let sum = 0;
  for (const [f, value] of x) if (!isScore(f)) sum += value * value;
  return Math.sqrt(sum) || 1;
}

const lengths = items ? Array.from(items.rows, (_, item) => lengthOf(valuesOf(item))) : [];

const firstOf = (found, rank, n) => found.filter(entry => entry[rank] <= n).sort((p, q) => p[rank] - q[rank]);

/**
 * The row to begin with: its plain neighbours are real and wrong, and its learned ones are right
 * and have words in common with it. Without labels, one whose neighbours change most.
 */
function firstExample() {
  let best = { gain: -Infinity, item: 0 };
  items.rows.forEach((_, item) => {
    const found = ranksFor(valuesOf(item), item), plain = firstOf(found, "before", N_SHOWN);
    const learned = firstOf(found, "after", N_SHOWN);
    const isReal = [...plain.map(entry => entry.plain), ...learned.map(entry => entry.score)]
      .every(score => score > 0.02);
    const sharing = learned.filter(entry => entry.plain > 0.02);
    const right = list => list.filter(entry => items.labels[entry.item] === items.labels[item]).length;
    const change = plain.filter(({ after }) => after > N_SHOWN).length + sharing.length;
    const likeness = sharing.reduce((sum, entry) => sum + entry.plain, 0) / N_SHOWN; // below 1
    const gain = (isReal ? 100 : 0) + likeness + (items.labels ? right(sharing) - right(plain) : change);
    if (gain > best.gain) best = { gain, item };
  });
  return best.item;
}

/** The neighbour whose match is explained at first. */
const firstNeighbor = () => firstOf(ranksFor(askedValues(), asked.item), "after", 1)[0].item;

function prepareNeighbors() {
  if (!items || items.rows.length < 2) {
    $("items-note").append("The report was written without rows to compare.");
    $("comparison").hidden = true;
    return;
  }
  const all = items.rows.length === counts.n_rows;
  $("items-note").append(
    all ? `All ${whole(counts.n_rows)} rows are on this page.`
      : `This page has ${whole(items.rows.length)} of the ${whole(counts.n_rows)} rows, spread evenly: ` +
        "search finds only these.",
    " They are compared by plain cosine, and by the learned cosine at the iteration of the slider. ",
    `Type ${data.has_names ? "words, or " : ""}the ${items.ids ? "id" : "number"} of a row.`,
    model.n_scores && data.has_names ? " Typed words have no class scores here: pairs of words count, " +
      "pairs with a class do not. The command hdsl search uses both." : "");
  $("titles").append(...Array.from(items.rows, (_, item) => h("option", { value: titleOf(item) })));
  if (classes) {
    $("legend").append("Colours: a row by its class, a feature by the class that has most of it. ",
      ...classes.names.flatMap((name, n) => [h("span", { class: `tinted ${hue(n)}` }, name), " "]));
    if (items.labels?.some(label => !classes.names.includes(label))) {
      $("legend").append(h("span", { class: `tinted ${hue(-1)}` }, "other"));
    }
  }
  view.own = ownSimilarities();
  asked.item = firstExample();
  view.second = firstNeighbor();
  const words = strongest(valuesOf(asked.item)).slice(0, 2).map(([f]) => names[f]).join(" ");
  const row = items.ids?.[0] ?? `Row ${items.rows[0]}`;
  $("query").placeholder = data.has_names ? `Words, such as “${words}”, or “${row}”` : `“${row}”`;
  $("query").value = titleOf(asked.item);
  $("query").addEventListener("input", () => { if (itemTitled($("query").value) >= 0) ask(); });
  $("query").addEventListener("change", ask);
  $("second").addEventListener("change", () => {
    const item = itemTitled($("second").value);
    if (item >= 0) view.second = item;
    showItems();
  });
  for (const id of ["query", "second"]) $(id).addEventListener("focus", event => event.target.select());
  $("more-parts").addEventListener("click", () => { view.allParts = true; showItems(); });
  const heads = { Part: "", "In the first": "extra", "In the second": "extra", Adds: "effect" };
  $("parts").tHead.append(h("tr", {}, ...Object.entries(heads).map(([label, kind]) =>
    h("th", { scope: "col", class: kind }, label))));
}

/** The item with a title, or the only one that has the typed text in it; -1 if there is none. */
function itemTitled(text) {
  const all = Array.from(items.rows, (_, item) => item), wanted = text.trim();
  const exact = all.find(item => titleOf(item) === text || nameOf(item) === text ||
    items.ids?.[item] === wanted || `Row ${items.rows[item]}` === wanted || String(items.rows[item]) === wanted);
  if (exact !== undefined) return exact;
  const some = data.has_names ? [] : all.filter(item => titleOf(item).toLowerCase().includes(
    wanted.toLowerCase()));
  return some.length === 1 ? some[0] : -1;
}

/** Search for what the box says. */
function ask() {
  const text = $("query").value, item = itemTitled(text);
  let said = "";
  if (item >= 0) [asked.item, asked.text, asked.values] = [item, "", null];
  else {
    const { values, unknown, nWords } = data.has_names ? valuesOfWords(text)
      : { values: new Map(), unknown: [] };
    const named = unknown.map(word => `“${word}”`).join(", ");
    if (!data.has_names) said = "No row, or more than one, has this in its title.";
    else if (!values.size) said = named ? `Nothing on this page has ${named}.` : "Type a word.";
    else if (named) said = `Nothing on this page has ${named}: the scores rest on ` +
      `${nWords - unknown.length} of ${nWords} words.`;
    [asked.item, asked.text, asked.values] = [-1, text, values];
  }
  $("unknown").textContent = said;
  view.allParts = false;
  view.second = asked.item >= 0 || asked.values.size ? firstNeighbor() : -1;
  showItems();
}

/** The neighbours of what is asked for, by cosine and as learned; none has a score of 0. */
function showNeighbors() {
  view.own = ownSimilarities();
  const x = askedValues(), found = x.size ? ranksFor(x, asked.item) : [];
  for (const [id, other, by, name] of
    [["before", "after", "plain", "as learned"], ["after", "before", "score", "by cosine"]]) {
    const first = firstOf(found, id, N_SHOWN).filter(entry => entry[by] > 0);
    $(id).replaceChildren(...first.map((entry, nth) => {
      const { item } = entry, moved = entry[other] - entry[id];
      const choose = () => {
        view.second = item;
        view.allParts = false;
        showItems();
        $(id).children[nth].firstElementChild.focus();
      };
      const place = moved ? `${ordinal(entry[other])} ${name}` : "";
      const button = h("button",
        { type: "button", "aria-pressed": String(item === view.second), onclick: choose },
        h("b", {}, number(entry[by], 3)), " ",
        h("span", { class: `tinted ${hueOf(item)}` }, nameOf(item)),
        place ? h("span", { class: entry[other] > N_SHOWN ? "moved new" : "moved" }, place) : "",
        h("span", { class: "snippet" }, snippet(item, 110)));
      return h("li", {}, hint(button, () => reasons(x, item)));
    }));
    if (first.length < N_SHOWN) {
      const text = first.length ? "No other row has anything in common." : "No row found.";
      $(id).append(h("li", { class: "note" }, text));
    }
  }
}

/** The words behind the score of a class in some rows, as a note; nothing for other features. */
function behind(features, ...rows) {
  const found = features.filter(isScore).flatMap(f => rows.flatMap(item =>
    items.words?.[item]?.[data.columns[f]] ?? []));
  return found.length ? [h("span", { class: "note" }, ` by ${[...new Set(found)].slice(0, 5).join(", ")}`)] : [];
}

const endsOf = n => [atoms.i[n], atoms.j[n]];

/** The largest parts of a similarity, for a hint. */
function reasons(x, item) {
  const { shared, pairs } = explain(x, valuesOf(item), view.w);
  const parts = [
    ...shared.map(({ feature: f, value }) => ({ what: [feature(f), ...behind([f], asked.item, item)], value })),
    ...pairs.map(({ atom, value }) =>
      ({ what: [pairOf(atom), ...behind(endsOf(atom), asked.item, item)], value }))];
  parts.sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
  const rest = parts.slice(5).reduce((sum, { value }) => sum + value, 0);
  return [
    ...parts.slice(0, 5).map(({ what, value }) => h("div", {}, ...what, ` ${signed(value)}`)),
    ...(parts.length > 5 ? [h("div", {}, `and ${parts.length - 5} more ${signed(rest)}`)] : []),
    ...(parts.length ? [] : ["Nothing in common"]),
  ];
}

// --- why two items match -----------------------------------------------------------------------

function showText(holder, item, shown) {
  if (!items.texts) {
    holder.replaceChildren(...strongest(valuesOf(item)).slice(0, 80).flatMap(([f, value]) => {
      const word = h(shown.has(names[f].toLowerCase()) ? "mark" : "span", {}, names[f]);
      return [word, ` ${number(value)}  `];
    }));
    return;
  }
  // Words that are the name of a feature in the sum are marked; the rest stays as it is.
  const pieces = items.texts[item].split(/([\p{L}\p{N}_]+)/u);
  holder.replaceChildren(...pieces.map(piece =>
    shown.has(piece.toLowerCase()) ? h("mark", {}, piece) : piece));
}

function showItems() {
  if ($("comparison").hidden) return;
  showNeighbors();
  $("match").hidden = view.second < 0;
  if (view.second < 0) return;
  const second = view.second, x = askedValues(), y = valuesOf(second);
  const why = explain(x, y, view.w);
  $("second").value = titleOf(second);
  const { score } = ranksFor(x, asked.item).find(({ item }) => item === second) ?? { score: 1 };
  const terms = ["The similarity is ", h("b", { id: "total" }, number(why.total, 4)), " = "];
  if (hasFixed) terms.push(h("b", {}, number(why.plain, 4)), " plain dot product + ");
  terms.push(h("b", {}, number(why.learned, 4)), ` from ${counted(why.pairs.length, "learned pair")}`,
    "; the learned cosine is ", h("b", { id: "cosine" }, number(score, 3)), ".");
  $("sum").replaceChildren(...terms);
  showParts(why, x, y);

  const features = why.shared.map(part => part.feature);
  for (const { atom } of why.pairs) features.push(...endsOf(atom));
  const shown = new Set(features.map(f => names[f].toLowerCase()));
  if (asked.item >= 0) showText($("first-text"), asked.item, shown);
  else $("first-text").replaceChildren(asked.text);
  showText($("second-text"), second, shown);
}

function showParts(why, x, y) {
  const parts = why.pairs.map(({ atom, value }) => {
    const has = values => endsOf(atom).filter(f => values.has(f))
      .map(f => `${names[f]} ${number(values.get(f))}`).join(", ");
    return { value, what: [pairOf(atom), ...behind(endsOf(atom), asked.item, view.second)],
      left: has(x), right: has(y) };
  });
  const classed = why.shared.filter(part => isScore(part.feature));
  const plain = why.shared.filter(part => !isScore(part.feature));
  if (plain.length) {
    plain.sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
    const some = plain.slice(0, 6).flatMap(({ feature: f }, n) => [n ? ", " : "", feature(f)]);
    const rest = plain.length - 6;
    parts.push({
      value: plain.reduce((sum, part) => sum + part.value, 0),
      what: ["Plain dot product: ", ...some, rest > 0 ? ` and ${rest} more` : ""],
      left: counted(x.size, "feature"), right: counted(y.size, "feature"),
    });
  }
  for (const { feature: f, value } of classed) {
    parts.push({ value, what: [feature(f), " in both", ...behind([f], asked.item, view.second)],
      left: number(x.get(f)), right: number(y.get(f)) });
  }
  parts.sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
  const most = parts.length ? Math.abs(parts[0].value) : 1;
  const large = parts.filter(({ value }) => Math.abs(value) >= 0.005 * most).slice(0, 12);
  const rows = (view.allParts ? parts : large).map(({ value, what, left, right }) => {
    const bar = gauge(signed(value), Math.abs(value) / most, value > 0 ? "together" : "apart");
    return h("tr", {}, h("td", {}, ...what), h("td", { class: "extra" }, left),
      h("td", { class: "extra" }, right), h("td", { class: "effect" }, bar));
  });
  const none = h("tr", {}, h("td", { colspan: 4 }, "The two have nothing in common that counts."));
  $("parts").tBodies[0].replaceChildren(...(rows.length ? rows : [none]));
  $("more-parts").hidden = rows.length === parts.length;
  $("more-parts").textContent = `Show all ${parts.length} parts`;
}
