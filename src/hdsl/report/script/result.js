// --- the result: of the fitted model -----------------------------------------------------------

function showResult() {
  document.title = data.title;
  $("title").append(data.title);
  const { errors } = data, order = ranked(path.at(model.n_iter));
  const used = new Set(order.flatMap(n => [atoms.i[n], atoms.j[n]]));
  const plus = order.filter(n => atoms.sign[n] > 0), minus = order.filter(n => atoms.sign[n] < 0);
  if (errors) showErrors(errors);
  else {
    $("gain").hidden = true;
    $("measured").append("No error on test rows was measured: the report was written without test " +
      "rows and labels, so it does not show whether the learned similarity is better than the cosine.");
  }
  const sentence = [
    `From ${counted(model.n_triplets, "comparison")}, the model learned `,
    `${counted(order.length, "pair")} of features: ${whole(plus.length)} that count together and `,
    `${whole(minus.length)} that are set apart`,
    hasFixed ? ", on top of the plain dot product. " : ". ",
  ];
  if (plus.length) sentence.push("Strongest together: ", pairOf(plus[0]), ". ");
  if (minus.length) sentence.push("Strongest apart: ", pairOf(minus[0]), ".");
  $("sentence").append(...sentence);
  $("facts").append(...definitions([
    ["Pairs in use", whole(order.length), h("small", {}, `of ${counted(used.size, "feature")}`)],
    ["Features in all", whole(model.n_features),
      h("small", {}, percent(used.size / model.n_features) + " in use")],
    ["Iterations", whole(model.n_iter), h("small", {}, LAST > model.n_iter ? `of ${whole(LAST)}`
      : "the whole path")],
  ]));
}

function showErrors(errors) {
  const { before, after, verdict, classifier, n_neighbors: k, is_of_sets: several } = errors;
  const what = several ? `The labels by ${k} nearest neighbours have a mean 1 − F1 of`
    : k ? `${k} nearest neighbours get` : "The learned cosine gets";
  const kind = `${whole(errors.n_test)} ${k ? "new rows" : "judgements"}`;
  const versus = { better: several ? "less than" : "fewer than", worse: "more than",
    "no difference": "not clearly other than" };
  $("headline").append(`${what} `, h("b", {}, percent(after.error)),
    several ? ` on ${kind}` : ` of ${kind} wrong`, `: ${versus[verdict]} the `,
    h("b", {}, percent(before.error)), " of the plain cosine.",
    !classifier ? "" : several ? ` ${classifier.name} has ${percent(classifier.error)}.`
      : ` ${classifier.name} gets ${percent(classifier.error)} of them wrong.`);
  const bars = [["Cosine", "plain", before], ["Learned", "learned", after]];
  if (classifier) bars.push([classifier.name, "plain", classifier]);
  const most = Math.max(...bars.map(([, , { interval }]) => interval[1])) * 1.04 || 1;
  for (const [name, kind, { error, interval: [low, high] }] of bars) {
    const bar = h("span", { class: `bar-of ${kind}` }), range = h("span", { class: "range" });
    bar.style.width = `${100 * error / most}%`;
    range.style.left = `${100 * low / most}%`;
    range.style.width = `${100 * (high - low) / most}%`;
    const said = `${name}: ${percent(error)}, ${(100 * low).toFixed(1)} to ${percent(high)}`;
    $("gain").append(h("span", { class: "name" }, name),
      h("span", { class: "track", role: "img", "aria-label": said }, bar, range),
      h("span", { class: "value" }, h("b", {}, percent(error)),
        h("small", {}, `${(100 * low).toFixed(1)} to ${percent(high)}`)));
  }
  const how = several
    ? `The error is the mean of 1 − F1 over ${counted(errors.n_test, "test row")}, of their labels and ` +
      `those that the ${k} most similar among ${counted(errors.n_rows, "other row")} vote for`
    : k ? `The error is the share of ${counted(errors.n_test, "test row")} whose class the vote of ` +
      `their ${k} most similar among ${counted(errors.n_rows, "other row")} gets wrong`
    : `The error is the share of ${counted(errors.n_test, "judgement")} held out that are wrong`;
  $("measured").append(`${how}: ${withInterval(before)} by cosine, ${withInterval(after)} by the ` +
    `learned cosine, with ${percent(errors.confidence, 0)} intervals. ${errors.sentence}`);
  showKnownItems(errors.known_items);
}

/** What learning costs a search for one particular row. */
function showKnownItems(found) {
  if (!found) return;
  $("known-items").append(
    "To find one particular row by half of its features: the mean reciprocal rank is ",
    h("b", {}, found.learned.toFixed(3)), " as learned and ", h("b", {}, found.cosine.toFixed(3)),
    " by cosine. ", found.sentence);
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

function showSettings() {
  const gap = trace.gap[model.n_iter], { choice } = data;
  const prior = model.fixed.find(part => part.name === "prior");
  const how = model.gap_is_exact ? "found by an exact search" : "by a search that is not exhaustive";
  $("status").append([
    ENDS[model.status] ?? `The run ended with status ${model.status}.`,
    LAST > model.n_iter ? `The fitted model is the one after ${whole(model.n_iter)} of ` +
      `${counted(LAST, "iteration")}.` : "",
    Number.isNaN(gap) ? "" : `Its duality gap is ${number(gap)}, ${how}.`,
    `The scale is ${number(model.scale, 4)}, and the prior, the weight of the plain dot product, is`,
    `${number(prior.weight, 4)}${choice ? ": chosen on held-out data" : ""}.`,
  ].filter(part => part).join(" "));
  if (choice) showTried(choice);
  else $("tried").remove();
  for (const [id, isDefault] of [["changed", false], ["defaults", true]]) {
    const some = data.parameters.filter(parameter => parameter[2] === isDefault);
    $(id).append(...definitions(some.map(([name, value]) => [name, value])));
  }
  $("colophon").append(`Written by hdsl ${data.version}. `,
    "This page is complete: it loads nothing and sends nothing.");
}

/** The candidates that held-out data chose from. */
function showTried(tried) {
  const head = ["Prior", "Iterations", "Score", "Known items"];
  const [table] = $("tried").getElementsByTagName("table");
  table.tHead.append(h("tr", {}, ...head.map(label => h("th", { scope: "col", class: "number" }, label))));
  table.tBodies[0].append(...Array.from(tried.prior, (prior, n) => h("tr",
    { class: tried.chosen[n] ? "taken" : "" },
    ...[Number.isFinite(prior) ? number(prior) : "cosine", tried.n_iter[n] ? whole(tried.n_iter[n]) : "–",
      `${tried.score[n].toFixed(3)} ± ${tried.error[n].toFixed(3)}`,
      Number.isNaN(tried.mrr[n]) ? "–" : tried.mrr[n].toFixed(3),
    ].map(text => h("td", { class: "number" }, text)))));
}
