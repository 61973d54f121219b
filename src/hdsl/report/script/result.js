// --- the result: of the fitted model -----------------------------------------------------------

function showResult() {
  document.title = data.title;
  $("title").append(data.title);
  if (data.errors) {
    showErrors(data.errors);
  } else {
    $("gain").hidden = true;
    $("measured").append("No error on test rows was measured: the report was written without test " +
      "rows and labels, so it does not show whether the learned similarity is better than the cosine.");
  }
  const order = ranked(path.weightsAfter(model.n_iter));
  showPairsInUse(order);
  showFacts(order);
}

/** How many directions of an embedding the model has learned, in words. */
function learnedDirections() {
  const n = path.weightsAfter(model.n_iter).slice(N_PAIRS, N_ATOMS).filter(w => w > 0).length;
  return n ? `, and ${counted(n, "direction")} of the embedding` : "";
}

function showPairsInUse(order) {
  const together = order.filter(n => atoms.sign[n] > 0);
  const apart = order.filter(n => atoms.sign[n] < 0);
  const base = weightedParts.map(fixedPart => `the ${titleOfPart(fixedPart)}`).join(" and ");
  const sentence = [
    `From ${counted(model.n_triplets, "comparison")}, the model learned `,
    `${counted(order.length, "pair")} of features: ${whole(together.length)} that count together and `,
    `${whole(apart.length)} that are set apart`,
    learnedDirections(),
    base ? `, on top of ${base}. ` : ". ",
  ];
  if (together.length) sentence.push("Strongest together: ", pairOf(together[0]), ". ");
  if (apart.length) sentence.push("Strongest apart: ", pairOf(apart[0]), ".");
  $("sentence").append(...sentence);
}

function showFacts(order) {
  const used = new Set(order.flatMap(n => [atoms.i[n], atoms.j[n]]));
  const ofFeatures = `of ${counted(used.size, "feature")}`;
  const inUse = `${percent(used.size / model.n_features)} in use`;
  const ofPath = LAST > model.n_iter ? `of ${whole(LAST)}` : "the whole path";
  $("facts").append(...definitions([
    ["Pairs in use", whole(order.length), h("small", {}, ofFeatures)],
    ["Features in all", whole(model.n_features), h("small", {}, inUse)],
    ["Iterations", whole(model.n_iter), h("small", {}, ofPath)],
  ]));
}

// --- errors ------------------------------------------------------------------------------------

/** What an error is, in the words of its supervision: several labels per row, one, or judgements. */
function wordsOfErrors(errors) {
  const { n_neighbors: k, n_test: n, n_rows: nRows } = errors;
  if (errors.is_of_sets) {
    return {
      subject: `The labels by ${k} nearest neighbours have a mean 1 − F1 of`,
      trials: ` on ${whole(n)} new rows`,
      fewer: "less than",
      ofClassifier: (classifier) =>
        ` ${classifier.name}${sampleOf(classifier)} has ${percent(classifier.error)}.`,
      how: `The error is the mean of 1 − F1 over ${counted(n, "test row")}, of their labels and ` +
        `those that the ${k} most similar among ${counted(nRows, "other row")} vote for`,
    };
  }
  const ofClassifier = (classifier) =>
    ` ${classifier.name}${sampleOf(classifier)} gets ${percent(classifier.error)} of them wrong.`;
  if (errors.searches && !errors.is_of_clicks) {
    return {
      subject: "As learned, the first ten documents of a query have a mean 1 − nDCG of",
      trials: ` on ${counted(n, "judged query", "judged queries")} held out`,
      fewer: "less than",
      ofClassifier,
      how: `The error is the mean of 1 − nDCG@10 over ${counted(n, "query", "queries")}, of what ` +
        `was judged relevant among ${counted(nRows, "document")}`,
    };
  }
  if (k) {
    return {
      subject: `${k} nearest neighbours get`,
      trials: ` of ${whole(n)} new rows wrong`,
      fewer: "fewer than",
      ofClassifier,
      how: `The error is the share of ${counted(n, "test row")} whose class the vote of ` +
        `their ${k} most similar among ${counted(nRows, "other row")} gets wrong`,
    };
  }
  return {
    subject: "The learned cosine gets",
    trials: ` of ${whole(n)} judgements wrong`,
    fewer: "fewer than",
    ofClassifier,
    how: `The error is the share of ${counted(n, "judgement")} held out that are wrong`,
  };
}

/** What a classifier learned from, where that is not all rows. */
function sampleOf({ n_learned: nLearned, n_rows: nRows }) {
  if (nLearned === nRows) return "";
  return `, learned from ${whole(nLearned)} of ${counted(nRows, "row")},`;
}

function showErrors(errors) {
  const { before, after, classifier } = errors;
  const words = wordsOfErrors(errors);
  const verdicts = {
    better: words.fewer,
    worse: "more than",
    "no difference": "not clearly other than",
  };
  $("headline").append(
    `${words.subject} `,
    h("b", {}, percent(after.error)),
    `${words.trials}: ${verdicts[errors.verdict]} the `,
    h("b", {}, percent(before.error)),
    " of the plain cosine.",
    classifier ? words.ofClassifier(classifier) : "");
  const bars = [
    { name: "Cosine", kind: "plain", rate: before },
    { name: "Learned", kind: "learned", rate: after },
  ];
  if (classifier) bars.push({ name: classifier.name, kind: "plain", rate: classifier });
  const longest = Math.max(...bars.map(({ rate }) => rate.interval[1])) * 1.04 || 1;
  for (const bar of bars) $("gain").append(...errorBar(bar, longest));
  $("measured").append(`${words.how}: ${withInterval(before)} by cosine, ${withInterval(after)} by ` +
    `the learned cosine, with ${percent(errors.confidence, 0)} intervals. ${errors.sentence}`);
  showSearches(errors.searches);
  showKnownItems(errors.known_items);
}

/** The name of an error, its bar with its interval, and its numbers. */
function errorBar({ name, kind, rate }, longest) {
  const [low, high] = rate.interval;
  const bar = h("span", { class: `bar-of ${kind}` });
  bar.style.width = `${100 * rate.error / longest}%`;
  const whisker = h("span", { class: "range" });
  whisker.style.left = `${100 * low / longest}%`;
  whisker.style.width = `${100 * (high - low) / longest}%`;
  const label = `${name}: ${percent(rate.error)}, ${range(rate.interval)}`;
  return [
    h("span", { class: "name" }, name),
    h("span", { class: "track", role: "img", "aria-label": label }, bar, whisker),
    h("span", { class: "value" },
      h("b", {}, percent(rate.error)), h("small", {}, range(rate.interval))),
  ];
}

/** How well judged queries find what is relevant, by each measure. */
function showSearches(searches) {
  if (!searches) return;
  const sentences = Object.entries(searches.measures).map(([name, { cosine, learned }]) =>
    `${name} is ${learned.mean.toFixed(3)} as learned and ${cosine.mean.toFixed(3)} by cosine. `);
  if (searches.memory) sentences.push(`${searches.memory.sentence} `);
  $("known-items").append(...sentences);
}

/** What learning costs a search for one particular row. */
function showKnownItems(knownItems) {
  if (!knownItems) return;
  const { learned, cosine, sentence } = knownItems;
  $("known-items").append(
    "To find one particular row by half of its features: the mean reciprocal rank is ",
    h("b", {}, learned.toFixed(3)), " as learned and ", h("b", {}, cosine.toFixed(3)),
    " by cosine. ", ...withCode(sentence));
}

// --- settings ----------------------------------------------------------------------------------

const ENDS = {
  optimal: "The run ended at the optimum, certified by its duality gap.",
  gap_not_certified: "The run ended with a duality gap below its tolerance, by a search that is " +
    "not exhaustive: near the optimum, but not certified.",
  no_violation: "The run ended because every comparison was judged right with a margin to spare.",
  max_iter: "The run ended at its largest number of iterations.",
  callback: "The run was ended by a callback.",
  interrupted: "The run was interrupted; this is the model up to there.",
  stalled: "The run ended because no step led further down.",
  at: "This is an earlier model of a longer path.",
};

/** How the run ended, and the scale and the weights of the model. */
function statusSentences() {
  const sentences = [ENDS[model.status] ?? `The run ended with status ${model.status}.`];
  if (LAST > model.n_iter) {
    sentences.push(`The fitted model is the one after ${whole(model.n_iter)} of ` +
      `${counted(LAST, "iteration")}.`);
  }
  const gap = trace.gap[model.n_iter];
  if (!Number.isNaN(gap)) {
    const how = model.gap_is_exact ? "found by an exact search" : "by a search that is not exhaustive";
    sentences.push(`Its duality gap is ${number(gap)}, ${how}.`);
  }
  const weights = [`The scale is ${number(model.scale, 4)}`, ...model.fixed.map(weightText)];
  sentences.push(`${weights.join(", and ")}.`);
  return sentences;
}

/** The weight of a fixed part; that of the prior may have been chosen. */
function weightText({ name, weight }) {
  if (name !== "prior") return `the weight of the ${name} is ${number(weight, 4)}`;
  const how = data.choice ? ": chosen on held-out data" : "";
  return `the prior, the weight of the plain dot product, is ${number(weight, 4)}${how}`;
}

function showSettings() {
  $("status").append(statusSentences().join(" "));
  if (data.choice) showCandidates(data.choice);
  else $("tried").remove();
  const changed = data.parameters.filter(([, , isDefault]) => !isDefault);
  const defaults = data.parameters.filter(([, , isDefault]) => isDefault);
  $("changed").append(...definitions(changed.map(([name, value]) => [name, value])));
  $("defaults").append(...definitions(defaults.map(([name, value]) => [name, value])));
  $("colophon").append(`Written by hdsl ${data.version}. `,
    "This page is complete: it loads nothing and sends nothing.");
}

/** The candidates that held-out data chose from. */
function showCandidates(choice) {
  const [table] = $("tried").getElementsByTagName("table");
  const titles = ["Prior", "Iterations", "Score", "Known items"];
  const heads = titles.map(title => h("th", { scope: "col", class: "number" }, title));
  table.tHead.append(h("tr", {}, ...heads));
  choice.prior.forEach((prior, n) => {
    const texts = [
      Number.isFinite(prior) ? number(prior) : "cosine",
      choice.n_iter[n] ? whole(choice.n_iter[n]) : "–",
      `${choice.score[n].toFixed(3)} ± ${choice.error[n].toFixed(3)}`,
      Number.isNaN(choice.mrr[n]) ? "–" : choice.mrr[n].toFixed(3),
    ];
    const cells = texts.map(text => h("td", { class: "number" }, text));
    table.tBodies[0].append(h("tr", { class: choice.chosen[n] ? "taken" : "" }, ...cells));
  });
}
