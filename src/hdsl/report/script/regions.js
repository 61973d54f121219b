// --- the regions: what each adds to the similarity of its queries ------------------------------

const PAIRS_OF_REGION = 8;

/** Region 3: its features; a region that has no center has a number alone. */
function regionName(r) {
  const name = regions.names[r];
  return h("span", { class: "feature" },
    name === `region ${r}` ? `Region ${r}` : `Region ${r}: ${name}`);
}

function prepareRegions() {
  if (!regions) {
    for (const part of document.querySelectorAll(".of-regions")) part.remove();
    return;
  }
  $("regions-note").append(
    "A query is compared by the pairs that all regions share, and by those of its own region. Columns " +
    `are as in the table of all pairs, with scale ${number(regions.scale, 4)}. A region is named by the ` +
    "features that set its center apart.");
}

function showRegions() {
  if (!regions) return;
  const local = view.blocks.slice(1), orders = local.map(w => ranked(w, regions.scale));
  const all = orders.flatMap((order, r) => order.map(n => strength(n, local[r], regions.scale)));
  const most = measure(all.sort((p, q) => q - p));
  $("region-list").replaceChildren(...orders.map((order, r) => {
    const list = order.slice(0, PAIRS_OF_REGION), id = `region-${r}`;
    const heads = COLUMNS.map(({ label, title, class: kind }) =>
      h("th", { scope: "col", class: kind, "aria-label": title }, label));
    const table = h("table", { "aria-labelledby": id }, h("thead", {}, h("tr", {}, ...heads)),
      h("tbody", {}, ...rowsOf(list, local[r], regions.scale, most)));
    const which = list.length < order.length ? `the ${list.length} strongest of ` : "";
    const said = [
      regions.n_rows ? `${whole(regions.n_rows[r])} of ${counted(counts.n_rows, "row")}` : "",
      order.length ? which + counted(order.length, "pair") : "no pairs of its own",
    ].filter(text => text).join("; ");
    return h("div", { class: "region" }, h("h3", { id }, regionName(r)), h("p", { class: "note" }, said),
      order.length ? h("div", { class: "scroll" }, table) : "");
  }));
}

/** The region that decides how a query is compared. */
function showRegionOfQuery(region) {
  if (!regions) return;
  const why = asked.values && !regions.centers ? "This page does not know the region of typed words"
    : "Outside all regions";
  $("query-region").replaceChildren(...(region >= 0 ? ["The query is in ", regionName(region), "."]
    : [`${why}: the query is compared by the pairs that all regions share.`]));
}
