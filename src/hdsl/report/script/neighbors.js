// --- neighbours of a row or of typed words, before and after -----------------------------------

const nameOf = item => {
  const label = items.labels ? `, ${items.labels[item]}` : "";
  return `Row ${items.rows[item]}${label}`;
};

const hueOf = item => hue(classes && items.labels ? classes.names.indexOf(items.labels[item]) : -1);

/** The features of an item, the largest values first. */
const strongest = values => [...values].sort((p, q) => Math.abs(q[1]) - Math.abs(p[1]));

function snippet(item, n) {
  const text = items.texts ? items.texts[item].replace(/\s+/g, " ").trim()
    : strongest(valuesOf(item)).slice(0, 12).map(([f]) => names[f]).join(", ");
  return short(text, n);
}

const titleOf = item => `${nameOf(item)}: ${snippet(item, 70)}`;

// What is searched for: an item, or words that were typed.
const asked = { item: 0, text: "", values: null };

const isScore = f => data.columns[f] >= model.n_features - model.n_scores;

const byWord = new Map(names.map((name, f) => [name.toLowerCase(), f]).filter(([, f]) => !isScore(f)));

/** Words of a text that the page knows, with TF-IDF weights, at unit length. */
function valuesOfWords(text) {
  const words = text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [], found = new Map();
  for (let n = 1; n <= 3; n++) {
    for (let k = 0; k + n <= words.length; k++) {
      const f = byWord.get(words.slice(k, k + n).join(" "));
      if (f !== undefined) found.set(f, (found.get(f) ?? 0) + 1);
    }
  }
  const weight = f => (data.query_weights ? data.query_weights[f] : 1);
  for (const [f, count] of found) found.set(f, (1 + Math.log(count)) * weight(f));
  const length = Math.hypot(...found.values()) || 1;
  for (const [f, value] of found) found.set(f, value / length);
  return found;
}

/** The region of typed words, that of the nearest center; -1 where the page has no centers. */
function regionOfWords(x) {
  const centers = regions?.centers;
  let region = -1, most = -Infinity;
  for (let r = 0; centers && r < centers.square.length; r++) {
    let score = -centers.square[r];
    for (let n = centers.start[r]; n < centers.start[r + 1]; n++) {
      score += 2 * centers.value[n] * (x.get(centers.feature[n]) ?? 0);
    }
    if (score > most) [region, most] = [r, score];
  }
  return region;
}

/** Prior·x + (M + N)x: dot products with it are similarities of queries of a region. */
function rewritten(x, region) {
  const q = new Map();
  const add = (f, value) => q.set(f, (q.get(f) ?? 0) + value);
  for (const [f, value] of x) add(f, model.prior * value);
  for (const { w, scale } of partsOf(region, view.blocks)) for (let n = 0; n < N_ATOMS; n++) {
    if (!(w[n] > 0)) continue;
    const i = atoms.i[n], j = atoms.j[n], sign = atoms.sign[n];
    const part = scale * w[n] * ((x.get(i) ?? 0) + sign * (x.get(j) ?? 0));
    if (part !== 0) { add(i, part); add(j, sign * part); }
  }
  return q;
}

/** Similarities of each item with itself, by which the learned cosine divides. */
function ownSimilarities() {
  return Array.from(items.rows, (_, item) => {
    const x = valuesOf(item), q = rewritten(x, regionOf(item));
    let sum = 0;
    for (const [f, value] of x) sum += value * (q.get(f) ?? 0);
    return sum;
  });
}

/** The other items with their cosine, learned cosine, and ranks by both, in the order of items. */
function ranksFor(x, region, leftOut) {
  const q = rewritten(x, region), found = [];
  let own = 0;
  for (const [f, value] of x) own += value * (q.get(f) ?? 0);
  items.rows.forEach((_, item) => {
    if (item === leftOut) return;
    let plain = 0, score = 0;
    for (let n = items.start[item]; n < items.start[item + 1]; n++) {
      const f = items.feature[n], value = items.value[n];
      if (!isScore(f)) plain += value * (x.get(f) ?? 0);
      score += value * (q.get(f) ?? 0);
    }
    const length = Math.sqrt(own * view.own[item]);
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

function prepareNeighbors() {
  if (!items || items.rows.length < 2) {
    $("items-note").append("The report was written without rows to compare.");
    $("comparison").hidden = true;
    return;
  }
  $("items-note").append(
    `${counted(items.rows.length, "row")} of this page`,
    items.rows.length < counts.n_rows ? `, spread evenly over ${whole(counts.n_rows)},` : "",
    " by plain cosine, and by the learned cosine at the iteration of the slider. ",
    data.has_names ? "Type words, or type to choose a row." : "Type to choose a row.",
    model.n_scores && data.has_names ? " Typed words have no class scores: pairs of words count, pairs " +
      "with a class do not. The command hdsl search uses both." : "");
  $("titles").append(...Array.from(items.rows, (_, item) => h("option", { value: titleOf(item) })));
  if (classes) {
    $("legend").append("Colours: a row by its class, a feature by the class that has most of it. ",
      ...classes.names.flatMap((name, n) => [h("span", { class: `tinted ${hue(n)}` }, name), " "]));
  }
  view.own = ownSimilarities();
  // To begin with, two that learning brought together: the closest, and far down by cosine.
  const alike = (p, q) => !items.labels || items.labels[p] === items.labels[q];
  let gain = 0;
  view.second = ranksFor(valuesOf(0), regionOf(0), 0).find(({ after }) => after === 1).item;
  items.rows.forEach((_, first) => {
    const { item, before } = ranksFor(valuesOf(first), regionOf(first), first)
      .find(({ after }) => after === 1);
    if (before > gain && alike(first, item)) [asked.item, view.second, gain] = [first, item, before];
  });
  $("query").value = titleOf(asked.item);
  $("query").addEventListener("input", () => { if (itemTitled($("query").value) >= 0) ask(); });
  $("query").addEventListener("change", ask);
  $("second").addEventListener("change", () => {
    const item = itemTitled($("second").value);
    if (item >= 0) view.second = item;
    showItems();
  });
  for (const id of ["query", "second"]) $(id).addEventListener("focus", event => event.target.select());
  prepareItems();
}

/** The item with a title, or the only one that has the typed text in it; -1 if there is none. */
function itemTitled(text) {
  const all = Array.from(items.rows, (_, item) => item);
  const exact = all.find(item => titleOf(item) === text || nameOf(item) === text ||
    `Row ${items.rows[item]}` === text.trim());
  if (exact !== undefined) return exact;
  const some = data.has_names ? [] : all.filter(item => titleOf(item).toLowerCase().includes(
    text.trim().toLowerCase()));
  return some.length === 1 ? some[0] : -1;
}

/** Search for what the box says. */
function ask() {
  const text = $("query").value, item = itemTitled(text);
  if (item >= 0) [asked.item, asked.text, asked.values] = [item, "", null];
  else if (data.has_names) {
    const values = valuesOfWords(text);
    $("unknown").textContent = values.size ? "" : "No word of this is a feature on this page.";
    if (!values.size) return;
    [asked.item, asked.text, asked.values] = [-1, text, values];
  } else {
    $("unknown").textContent = "No row, or more than one, has this in its title.";
    return;
  }
  $("unknown").textContent = "";
  view.second = ranksFor(askedValues(), askedRegion(), asked.item).find(({ after }) => after === 1).item;
  view.allParts = false;
  showItems();
}

const askedValues = () => asked.values ?? valuesOf(asked.item);
const askedRegion = () => (asked.values ? regionOfWords(asked.values) : regionOf(asked.item));

/** The neighbours of what is asked for, by cosine and as learned. */
function showNeighbors() {
  view.own = ownSimilarities();
  const x = askedValues(), region = askedRegion(), found = ranksFor(x, region, asked.item);
  showRegionOfQuery(region);
  for (const [id, own, other, by, name] of
    [["before", "before", "after", "plain", "as learned"], ["after", "after", "before", "score", "by cosine"]]) {
    const first = found.filter(entry => entry[own] <= 6).sort((p, q) => p[own] - q[own]);
    $(id).replaceChildren(...first.map((entry, nth) => {
      const { item } = entry, moved = entry[other] - entry[own];
      const choose = () => {
        view.second = item;
        view.allParts = false;
        showItems();
        $(id).children[nth].firstElementChild.focus();
      };
      const place = moved ? `${ordinal(entry[other])} ${name}` : "";
      const isNew = entry[other] > 6;
      const button = h("button",
        { type: "button", "aria-pressed": String(item === view.second), onclick: choose },
        h("b", {}, number(entry[by], 3)), " ",
        h("span", { class: `tinted ${hueOf(item)}` }, nameOf(item)),
        place ? h("span", { class: isNew ? "moved new" : "moved" }, place) : "",
        h("span", { class: "snippet" }, snippet(item, 110)));
      return h("li", {}, hint(button, () => reasons(x, item, region)));
    }));
  }
}

/** The largest parts of a similarity, for a hint. */
function reasons(x, item, region) {
  const { shared, pairs } = explain(x, valuesOf(item), partsOf(region, view.blocks));
  const parts = [...shared.map(({ feature: f, value }) => ({ what: feature(f), value })),
    ...pairs.map(({ atom, isLocal, value }) => ({ what: pairOf(atom, isLocal), value }))];
  parts.sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
  const rest = parts.slice(5).reduce((sum, { value }) => sum + value, 0);
  return [
    ...parts.slice(0, 5).map(({ what, value }) => h("div", {}, what, ` ${signed(value)}`)),
    ...(parts.length > 5 ? [h("div", {}, `and ${parts.length - 5} more ${signed(rest)}`)] : []),
    ...(parts.length ? [] : ["Nothing in common"]),
  ];
}
