// --- why two items match -----------------------------------------------------------------------

function prepareItems() {
  $("more-parts").addEventListener("click", () => { view.allParts = true; showItems(); });
  const heads = { Part: "", "In the first": "extra", "In the second": "extra", Adds: "effect" };
  $("parts").tHead.append(h("tr", {}, ...Object.entries(heads).map(([label, kind]) =>
    h("th", { scope: "col", class: kind }, label))));
}

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
  const second = view.second, x = askedValues(), y = valuesOf(second), region = askedRegion();
  const why = explain(x, y, partsOf(region, view.blocks));
  $("second").value = titleOf(second);
  const { score } = ranksFor(x, region, asked.item).find(({ item }) => item === second) ?? { score: 1 };
  const terms = ["The similarity is ", h("b", { id: "total" }, number(why.total, 4)), " = "];
  if (model.prior > 0) terms.push(h("b", {}, number(why.plain, 4)), " plain dot product + ");
  const nLocal = why.pairs.filter(({ isLocal }) => isLocal).length;
  terms.push(h("b", {}, number(why.learned, 4)),
    ` from ${counted(why.pairs.length - nLocal, "learned pair")}`);
  if (region >= 0) {
    terms.push(" + ", h("b", {}, number(why.local, 4)), ` from ${counted(nLocal, "pair")} of `,
      regionName(region));
  }
  terms.push("; the learned cosine is ", h("b", { id: "cosine" }, number(score, 3)), ".");
  $("sum").replaceChildren(...terms);
  showParts(why, x, y);

  const features = why.shared.map(part => part.feature);
  for (const { atom } of why.pairs) features.push(atoms.i[atom], atoms.j[atom]);
  const shown = new Set(features.map(f => names[f].toLowerCase()));
  if (asked.item >= 0) showText($("first-text"), asked.item, shown);
  else $("first-text").replaceChildren(asked.text);
  showText($("second-text"), second, shown);
}

function showParts(why, x, y) {
  const parts = why.pairs.map(({ atom, isLocal, value }) => {
    const has = values => [atoms.i[atom], atoms.j[atom]].filter(f => values.has(f))
      .map(f => `${names[f]} ${number(values.get(f))}`).join(", ");
    return { value, what: [pairOf(atom, isLocal)], left: has(x), right: has(y) };
  });
  if (why.shared.length) {
    why.shared.sort((p, q) => Math.abs(q.value) - Math.abs(p.value));
    const some = why.shared.slice(0, 6).flatMap(({ feature: f }, n) => [n ? ", " : "", feature(f)]);
    const rest = why.shared.length - 6;
    parts.push({
      value: why.plain, what: ["Plain dot product: ", ...some, rest > 0 ? ` and ${rest} more` : ""],
      left: counted(x.size, "feature"), right: counted(y.size, "feature"),
    });
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
