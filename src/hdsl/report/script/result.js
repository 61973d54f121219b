// --- the result: of the fitted model -----------------------------------------------------------

function showResult() {
  document.title = data.title;
  $("title").append(data.title);
  const { errors } = data, [w, ...local] = path.at(model.n_iter), order = ranked(w);
  const own = local.flatMap(part => ranked(part, regions.scale)); // of regions
  const used = new Set([...order, ...own].flatMap(n => [atoms.i[n], atoms.j[n]]));
  const plus = order.filter(n => atoms.sign[n] > 0), minus = order.filter(n => atoms.sign[n] < 0);
  if (errors) showErrors(errors);
  else {
    $("gain").hidden = true;
    $("measured").append("No error on test rows was measured: the report was written without test " +
      "rows and labels, so it does not show whether the learned similarity is better than the cosine.");
  }
  const sentence = [
    `From ${counted(model.n_triplets, "triplet")}, the model learned `,
    `${counted(order.length, "pair")} of features: ${whole(plus.length)} that count together and `,
    `${whole(minus.length)} that are set apart`,
    regions ? `, and ${whole(own.length)} more in ${counted(local.length, "region")}` : "",
    model.prior > 0 ? ", on top of the plain dot product. " : ". ",
  ];
  if (plus.length) sentence.push("Strongest together: ", pairOf(plus[0]), ". ");
  if (minus.length) sentence.push("Strongest apart: ", pairOf(minus[0]), ".");
  $("sentence").append(...sentence);
  $("facts").append(...definitions([
    ["Pairs in use", whole(order.length + own.length), h("small", {}, `of ${counted(used.size, "feature")}`)],
    ["Features in all", whole(model.n_features),
      h("small", {}, percent(used.size / model.n_features) + " in use")],
    ["Iterations", whole(model.n_iter), h("small", {}, isChosen() ? "chosen on validation rows"
      : LAST > model.n_iter ? `the best of ${whole(LAST)}` : "the whole path")],
  ]));
}

const isChosen = () => Boolean(choice) || !Number.isNaN(trace.validation_score[model.n_iter]);

function showErrors(errors) {
  const { before, after, verdict, n_neighbors: k } = errors;
  const what = k ? `${k} nearest neighbours get` : "The learned cosine gets";
  const of = k ? "new rows" : "judgements";
  const versus = { better: "fewer than", worse: "more than", "no difference": "not clearly other than" };
  $("headline").append(`${what} `, h("b", {}, percent(after.error)), ` of ${whole(errors.n_test)} ` +
    `${of} wrong: ${versus[verdict]} the `, h("b", {}, percent(before.error)), " of the plain cosine.");
  const most = Math.max(before.interval[1], after.interval[1]) * 1.04 || 1;
  for (const [name, kind, { error, interval: [low, high] }] of
    [["Cosine", "plain", before], ["Learned", "learned", after]]) {
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
  const how = k
    ? `The error is the share of ${counted(errors.n_test, "test row")} whose class the vote of ` +
      `their ${k} most similar among ${counted(errors.n_rows, "other row")} gets wrong`
    : `The error is the share of ${counted(errors.n_test, "judgement")} held out that are wrong`;
  $("measured").append(`${how}: ${withInterval(before)} by cosine, ${withInterval(after)} by the ` +
    `learned cosine, with ${percent(errors.confidence, 0)} intervals. ${errors.sentence}`);
}
