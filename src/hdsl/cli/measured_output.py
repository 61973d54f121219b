"""Print errors and ranks by cosine and as learned, and what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .output import show, show_table
from .wording import counted, percent

if TYPE_CHECKING:
    from ..evaluate import ErrorRate, KnownItem, RankingQuality, SearchComparison
    from ..evaluate.measured import Measured


def show_measured(title: str, measured: Measured) -> None:
    """Print errors and ranks by cosine and as learned, and below all one verdict."""
    errors = measured.errors
    show(f"{title[0].upper()}{title[1:]}, with {100 * errors.confidence:g} % intervals")
    if measured.searches is not None:
        _show_searches(measured.searches)
    if measured.is_of_clicks:
        show(
            "Users click only what an engine shows, which favours its order. So clicked "
            "rows are compared with those shown beside them, and each click counts by "
            "how likely its position is seen: "
            f"{counted(measured.n, 'click')} held out. Errors are rows above a clicked "
            "one:"
        )
    if measured.searches is None or measured.is_of_clicks:
        rows = [
            (*_error_cells(name, rate), _note(name, measured))
            for name, rate in measured.rates.items()
        ]
        show_table(rows, right=(1,))
    if measured.row_searches is not None:
        _show_row_searches(measured.row_searches)
    if measured.known_items:
        _show_ranks(measured)
    show("", f"Verdict: {_verdict(measured)}")


def _verdict(measured: Measured) -> str:
    """Return what the tables say together."""
    searches = measured.searches
    sentences = [measured.errors.sentence]
    if searches is not None and not measured.is_of_clicks:
        sentences = [searches.sentence]
    if searches is not None:
        sentences += [searches.bm25_sentence, searches.memory_sentence]
    if measured.row_searches is not None:
        sentences.append(f"Among all rows: {measured.row_searches.sentence}")
    if measured.known_items:
        sentences.append(measured.ranks_sentence)
    return " ".join(filter(None, sentences))


def _show_searches(searches: SearchComparison) -> None:
    """Print how well queries find what is relevant, by cosine and as learned."""
    names = searches.names()
    rows = [("", *names.values())]
    rankings = {"cosine": searches.before, "learned": searches.after}
    if searches.bm25 is not None:
        rankings = {"BM25": searches.bm25} | rankings
    for name, quality in rankings.items():
        cells = [_mean(quality, measure) for measure in names]
        rows.append((f"  {name}", *cells))
    gains = [_gain(searches, measure) for measure in names]
    rows.append(("  learned - cosine", *gains))
    show_table(rows)


def _show_row_searches(searches: SearchComparison) -> None:
    """Print in one line how well anchors find what they prefer among all rows."""
    show(
        f"Searched among all {searches.n_documents:,} rows, nDCG@{searches.before.k} "
        f"{searches.after.ndcg:.3f}, by cosine {searches.before.ndcg:.3f} "
        f"({searches.n_queries:,} anchors)."
    )


def _mean(quality: RankingQuality, measure: str) -> str:
    """Return the mean of a measure over queries, with its interval."""
    low, high = quality.interval(measure)
    return f"{quality.values(measure).mean():.3f} ({low:.3f} to {high:.3f})"


def _gain(searches: SearchComparison, measure: str) -> str:
    """Return the mean difference per query, with its interval."""
    gain, low, high = searches.after.gain(searches.before, measure)
    return f"{gain:+.3f} ({low:+.3f} to {high:+.3f})"


def _error_cells(name: str, rate: ErrorRate) -> tuple[str, ...]:
    """Return the cells of an error: share, interval, counts."""
    low, high = rate.interval
    n_wrong = f"{rate.n_wrong:,.1f}".removesuffix(".0")
    return (
        f"  {name}",
        percent(rate.share),
        f"{100 * low:.1f} to {percent(high)}",
        f"{n_wrong} of {rate.n:,}",
    )


def _note(name: str, measured: Measured) -> str:
    """Return what a classifier lacks, and what it learned from."""
    if name != "LinearSVC" or measured.classifier is None:
        return ""
    notes = filter(None, ["classifier only", measured.classifier.sample_note])
    return f"({', '.join(notes)})"


def _show_ranks(measured: Measured) -> None:
    """Print how well rows are found by half of their features."""
    learned = measured.known_items["learned"]
    show(
        "",
        "Known-item search: mean reciprocal rank of a row among "
        f"{learned.n_rows:,}, by half of its features, {len(learned.ranks):,} queries",
    )
    rows = [_rank_row(name, item) for name, item in measured.known_items.items()]
    show_table(rows, right=(1,))


def _rank_row(name: str, item: KnownItem) -> tuple[str, ...]:
    """Return the cells of a known-item search: mean reciprocal rank, interval, recalls."""
    low, high = item.interval
    return (
        f"  {name}",
        f"{item.mrr:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"found first {percent(item.recall(1))}, in the first ten "
        f"{percent(item.recall(10))}",
    )
