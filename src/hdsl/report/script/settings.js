// --- settings ----------------------------------------------------------------------------------

const ENDS = {
  optimal: "The run ended at the optimum, certified by its duality gap.",
  gap_not_certified: "The run ended with a duality gap below its tolerance, by a search that is " +
    "not exhaustive: near the optimum, but not certified.",
  no_violation: "The run ended because every triplet was judged right with a margin to spare.",
  max_iter: "The run ended at its largest number of iterations.",
  no_change: "The run ended because the validation score no longer improved.",
  callback: "The run was ended by a callback.",
  interrupted: "The run was interrupted; this is the model up to there.",
  stalled: "The run ended because no step led further down.",
  at: "This is an earlier model of a longer path.",
};

function showSettings() {
  const gap = trace.gap[model.n_iter];
  const how = model.gap_is_exact ? "found by an exact search" : "by a search that is not exhaustive";
  const length = counted(LAST, "iteration");
  const chosen = `The number of iterations, ${whole(model.n_iter)}, was chosen on validation rows; then ` +
    "the model learned from these rows, too, for as many iterations.";
  $("status").append([
    choice ? chosen : isChosen() ? "The number of iterations was chosen on validation rows."
      : ENDS[model.status] ?? `The run ended with status ${model.status}.`,
    LAST > model.n_iter ? `The fitted model is the one after ${whole(model.n_iter)} of ${length}.` : "",
    Number.isNaN(gap) ? "" : `Its duality gap is ${number(gap)}, ${how}.`,
    `The scale is ${number(model.scale, 4)}, and the prior, the weight of the plain dot product, is`,
    `${number(model.prior, 4)}.`,
  ].filter(part => part).join(" "));
  for (const [id, isDefault] of [["changed", false], ["defaults", true]]) {
    const some = data.parameters.filter(parameter => parameter[2] === isDefault);
    $(id).append(...definitions(some.map(([name, value]) => [name, value])));
  }
  $("colophon").append(`Written by hdsl ${data.version}. `,
    "This page is complete: it loads nothing and sends nothing.");
}
