"""The estimator: tables in, matches learned, links out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state
from threadpoolctl import threadpool_limits

from .. import saving
from ..explain import Explanation
from ..files.container import Arrays
from ..input.errors import warn
from ..input.estimators import LinkedToPages
from ..input.parameters import check_number, check_share, check_word
from ..progress import Progress
from . import later, linker_files, reasons
from .candidates import SearchedRecords, blocking_rules
from .entities import PairProbabilities
from .known import KnownPairs, LabelReport
from .later import alone, pairs_of_rows, read_pairs
from .learning import Settings, learn
from .linked import LinkedRecords
from .questions import Audit
from .reasons import Contributions
from .results import (
    LIBRARIES,
    Links,
    as_links,
    check_library,
    in_form_of,
    library_of,
)
from .tables import Field, read_later, read_tables

#: By what records are compared.
SIMILARITIES = ("learned", "cosine")


class Linker(LinkedToPages, BaseEstimator):
    """Link the records of two tables, or duplicates in one, by a learned similarity.

    Parameters
    ----------
    columns : list of str, default=None
        Columns to compare. If the tables have different column names, name those of
        both. None is all, without `id_column` and columns that only number the rows.
    id_column : str or (str, str), default=None
        Column of unique ids, or one column per table. Matches and answers name records
        by these ids.
    block_on : str, tuple or list of these, default=None
        Column that candidates agree in, for large tables: other pairs are not compared.
        With a list, candidates agree in at least one entry; with a tuple, in all of its
        columns: ``["email", ("surname", "postcode")]``. Case is ignored, and a missing
        value never agrees. Known pairs need not agree.
    similarity : {"learned", "cosine"}, default="learned"
        "cosine" does not learn the weights of words, only the probability of a match:
        it is faster, and usually finds less.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Number of threads.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    model_ : HDSL or None
        The learned similarity; None if the cosine is used, because there are too few
        matches, columns are short, or the cosine is better at finding held-out matches.
    is_learned_ : bool
        Whether classifiers trained on known pairs are used. They count as far as they
        clearly improve held-out pairs over the columns alone.
    statement_ : str
        The most informative columns, the expected number of wrong links, the result on
        held-out answers, and advice.
    label_report_ : LabelReport
        Known pairs that are repeated, that are both match and non-match, or that name
        an unknown record. The last two kinds are left out.
    audit_ : Audit or None
        The result of `audited`: numbers of links, of audited and of wrong ones, and the
        upper bound of the share of wrong links.

    Examples
    --------
    >>> left = ["apple iphone 4 black", "canon powershot a590", "sony bravia 40 inch"]
    >>> right = ["Sony 40in Bravia tv", "iPhone 4 (black) by Apple", "Canon A590 camera"]
    >>> links = Linker().fit(left, right).candidates(k=1)
    >>> links.left.tolist(), links.right.tolist()
    ([0, 1, 2], [1, 2, 0])
    """

    def __init__(
        self,
        columns: list[str] | None = None,
        *,
        id_column: Any = None,
        block_on: Any = None,
        similarity: str = "learned",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.columns = columns
        self.id_column = id_column
        self.block_on = block_on
        self.similarity = similarity
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        left: Any,
        right: Any = None,
        matches: Any = (),
        non_matches: Any = (),
        *,
        complete: bool = False,
    ) -> Linker:
        """Learn from known matches.

        Parameters
        ----------
        left, right : DataFrame, list of str or of dicts, or mapping of columns
            None as `right` looks for duplicates in `left`.
        matches : array-like of shape (n_matches, 2), default=()
            Pairs of the same thing: left and right row numbers, or ids with
            `id_column`. A pair may be repeated; a pair with an unknown record is left
            out, and so is one that is also a non-match. A match of a match is a match.
        non_matches : array-like of shape (n, 2), default=()
            Pairs known to be different. Unlisted pairs are unknown.
        complete : bool, default=False
            Whether `matches` has all matches of each record in it. The most similar
            other records are then known to be different.

        Returns
        -------
        Linker
        """
        check_word("Linker", "similarity", self.similarity, SIMILARITIES)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        settings = Settings(self.similarity, seed, self.n_jobs)
        # Threads of OpenMP that wait for one another take longer.
        with Progress(self.verbose) as progress, threadpool_limits(1, "openmp"):
            progress.stage("reading the tables")
            rules = blocking_rules(self.block_on)
            tables = read_tables(left, right, self.columns, self.id_column, rules)
            known = KnownPairs(tables, matches, non_matches, is_complete=complete)
            progress.stage("counting words")
            searched = SearchedRecords.of_tables(tables, rules, self.n_jobs, progress)
            learned = learn(searched, known, settings, progress)
            searched = searched.as_learned(learned.model, self.n_jobs, progress)
            progress.stage("comparing candidates")
            linked = LinkedRecords.of_known(searched, learned, known, self.n_jobs)
        library = library_of(left)
        self._library = library if library in LIBRARIES else None
        self._set(linked)
        self.audit_: Audit | None = None
        for sentence in self.label_report_.sentences():
            warn(sentence)
        return self

    def _set(self, linked: LinkedRecords) -> None:
        """Take records, and set the fitted attributes."""
        learned = linked.learned
        self._linked = linked
        self.model_ = learned.model
        self.is_learned_ = learned.is_learned
        self.statement_ = linked.statement()
        self.label_report_: LabelReport = linked.known.report

    def predict(
        self,
        threshold: float = 0.5,
        *,
        one_to_one: bool = False,
        max_false: float | None = None,
    ) -> Any:
        """Return all candidates with at least a probability, the most likely first.

        The candidates of a record are its ten nearest in the other table, ties by
        number, and known pairs. Known matches have the probability 1, and known
        non-matches 0.

        Parameters
        ----------
        threshold : float, default=0.5
        one_to_one : bool, default=False
            Whether each record is in at most one pair: the pairs with the largest sum
            of probabilities. In one table, pairs are taken by probability, each from
            the records that are left.
        max_false : float, default=None
            Maximum expected share of wrong links: as many links as stay within it,
            instead of those above `threshold`.

        Returns
        -------
        Links or DataFrame
        """
        check_is_fitted(self, "statement_")
        return self._named(self._links("predict", threshold, one_to_one, max_false))

    def _links(
        self, name: str, threshold: float, one_to_one: bool, max_false: float | None
    ) -> PairProbabilities:
        """Return links from a threshold on, or within a budget."""
        check_share(name, "threshold", threshold)
        if max_false is not None:
            check_share(name, "max_false", max_false)
            links = self._linked.within_budget(max_false, one_to_one=one_to_one)
            if len(links.pairs) == 0:
                warn(
                    f"No link is sure enough for a share of {max_false:g} wrong ones: "
                    "answer questions, or allow more."
                )
            return links
        links = self._linked.links(threshold)
        if one_to_one:
            links = self._linked.one_to_one(links)
        return links

    def link(self, new: Any, threshold: float = 0.5, *, side: str = "right") -> Any:
        """Return the links of new records with the fitted ones.

        The model is not retrained, earlier records are not searched again, and the new
        ones are not kept. The probabilities equal those after `add`. They use the
        fitted model and the vocabulary of the fitted tables. The first call prepares
        the search.

        Parameters
        ----------
        new : DataFrame, list of str or of dicts, or mapping of columns
            Records with the columns of the table on their side. Without a column of ids
            they are numbered after the records of the table.
        threshold : float, default=0.5
            Minimum probability of a link.
        side : {"right", "left"}, default="right"
            The table that the new records belong to. With one table, new records are
            linked with each other too.

        Returns
        -------
        Links or DataFrame
            The most likely first.

        Examples
        --------
        >>> left = ["apple iphone 4 black", "canon powershot a590", "sony bravia tv"]
        >>> right = ["Sony 40in Bravia", "iPhone 4 (black) by Apple", "Canon A590"]
        >>> links = Linker().fit(left, right).link(["sony bravia television"], 0.0)
        >>> int(links.left[0]), int(links.right[0])
        (2, 3)
        """
        check_is_fitted(self, "statement_")
        check_share("link", "threshold", threshold)
        new_records = self._later(new, side)
        together = later.link_later(self._linked, new_records, self.n_jobs)
        return self._named(together.links(threshold), together)

    def add(self, new: Any, *, side: str = "right") -> Linker:
        """Keep new records: from now on they are linked like the fitted ones.

        The model is not retrained, and earlier records are not searched again. Records
        without an id are numbered after those of their table.

        Parameters
        ----------
        new : DataFrame, list of str or of dicts, or mapping of columns
            As in `link`.
        side : {"right", "left"}, default="right"

        Returns
        -------
        Linker
        """
        check_is_fitted(self, "statement_")
        new_records = self._later(new, side)
        self._set(later.add_later(self._linked, new_records, self.n_jobs))
        return self

    def _later(self, new: Any, side: str) -> later.LaterRecords:
        """Return new records, searched for among those that were fitted."""
        searched = self._linked.searched
        table = read_later(new, searched.tables, self.id_column, side)
        return later.LaterRecords(searched, self.model_, table, side, self.n_jobs)

    def entities(self, threshold: float = 0.5, *, one_to_one: bool = False) -> Any:
        """Return groups of records of the same thing, with stable numbers.

        Links merge groups, the most probable first. A single record joins a group by
        one link; two groups of several records are merged only if the mean probability
        of all pairs between them reaches the threshold, so that one wrong link does not
        chain two entities together. An entity has the number of its oldest record:
        first the left table, then the right one, then added records. So added records
        rename no entity; `entity_changes` lists merges and splits.

        Parameters
        ----------
        threshold : float, default=0.5
        one_to_one : bool, default=False
            Each entity has at most one record of either table, as in `predict`.

        Returns
        -------
        Entities or DataFrame

        Examples
        --------
        >>> linker = Linker().fit(["red apple pie", "blue berry jam", "red apple pie"])
        >>> linker.entities().entity.tolist()
        [0, 1, 0]
        """
        check_is_fitted(self, "statement_")
        check_share("entities", "threshold", threshold)
        entities = self._linked.entities(
            threshold, one_to_one=one_to_one, n_jobs=self.n_jobs
        )
        return in_form_of(entities, self._library)

    def predict_proba(self, pairs: Any) -> np.ndarray:
        """Return the probability that pairs of ids match, shape (n_pairs,)."""
        check_is_fitted(self, "statement_")
        tables = self._linked.searched.tables
        return self._linked.probability(tables.pairs(pairs, "pairs"), self.n_jobs)

    def score_pairs(self, frame: Any) -> np.ndarray:
        """Return the probability of pairs with both records in a row of a frame.

        Each row is scored by itself, as if no record were nearer. So partitions of a
        large frame can be scored separately, on many machines. Known pairs are not
        looked up.

        Parameters
        ----------
        frame : DataFrame or mapping of columns
            The fitted columns of both records: ``name_left`` and ``name_right``,
            ``left_name`` and ``right_name``, or ``name_l`` and ``name_r``.

        Returns
        -------
        ndarray of shape (n_rows,)

        Examples
        --------
        >>> left = ["apple iphone 4 black", "canon powershot a590", "sony bravia tv"]
        >>> right = ["Sony 40in Bravia tv", "iPhone 4 (black) by Apple", "Canon A590"]
        >>> linker = Linker().fit(left, right)
        >>> pairs = {"text_left": left[:2], "text_right": right[1:]}
        >>> linker.score_pairs(pairs).shape
        (2,)
        """
        check_is_fitted(self, "statement_")
        searched = self._linked.searched
        tables = read_pairs(frame, searched.tables)
        if tables.n_left == 0:
            return np.zeros(0)
        records = alone(tables, searched, self.model_)
        pairs = pairs_of_rows(tables)
        return self._linked.learned.probability(records, pairs, self.n_jobs)

    def candidates(self, k: int = 10) -> Any:
        """Return the k most likely right records of each left one, best first.

        With one table, each record has its most likely duplicates, so that a pair may
        come twice.
        """
        check_is_fitted(self, "statement_")
        check_number("candidates", "k", k, low=1, integer=True)
        return self._named(self._linked.most_likely(k))

    def to_label(self, n: int = 20) -> Any:
        """Return the pairs most worth asking a person about.

        These are the pairs whose answers are likely to change most, each record at most
        once: the least certain ones, and those that decide about other pairs too,
        alternately a link and a non-link. Once an answer is known, links that hold an
        entity together come first. If things have several records, all likely pairs of
        a record are asked about, so that the answers settle its whole group.
        """
        check_is_fitted(self, "statement_")
        check_number("to_label", "n", n, low=1, integer=True)
        return self._named(self._linked.questions(n))

    def audit(
        self,
        n: int = 100,
        threshold: float = 0.5,
        *,
        one_to_one: bool = False,
        max_false: float | None = None,
    ) -> Any:
        """Return a random sample of the links, to answer and pass to `audited`.

        Parameters
        ----------
        n : int, default=100
        threshold, one_to_one, max_false
            The links are those of `predict`.

        Returns
        -------
        Links or DataFrame
        """
        check_is_fitted(self, "statement_")
        check_number("audit", "n", n, low=1, integer=True)
        links = self._links("audit", threshold, one_to_one, max_false)
        return self._named(self._linked.audit(links, n, self._linked.learned.seed))

    def audited(
        self,
        matches: Any,
        non_matches: Any = (),
        threshold: float = 0.5,
        *,
        one_to_one: bool = False,
        max_false: float | None = None,
    ) -> Audit:
        """Return the bound on wrong links from the answers to an audit, and correct probabilities.

        The bound is that of Clopper and Pearson: it holds in 95 of 100 audits, however
        good the probabilities are. From now on the answers are known pairs. If more
        links are wrong than expected, all pairs become less probable; if fewer are,
        links become more probable.

        Parameters
        ----------
        matches, non_matches : array-like of shape (n, 2)
            The answers to all pairs that `audit` drew: right links, and wrong ones.
        threshold, one_to_one, max_false
            As they were for `audit`.

        Returns
        -------
        Audit

        Examples
        --------
        >>> names = "anna bert carl dora emil frida gustav hanna ida jonas".split()
        >>> towns = "bonn jena kiel lyon oslo pisa riga rome turin york".split()
        >>> pairs = list(zip(names, towns))
        >>> table = [f"{a} {b} {road}" for a, b in pairs for road in ("long road", "lnog")]
        >>> linker = Linker(random_state=0).fit(table)
        >>> drawn = linker.audit(5)
        >>> audit = linker.audited([*zip(drawn.left, drawn.right)])
        >>> audit.n_audited, audit.n_wrong
        (5, 0)
        """
        check_is_fitted(self, "statement_")
        tables = self._linked.searched.tables
        links = self._links("audited", threshold, one_to_one, max_false)
        linked, audit = self._linked.audited(
            links,
            tables.pairs(matches, "matches"),
            tables.pairs(non_matches, "non_matches"),
            self.n_jobs,
        )
        self._set(linked)
        self.audit_ = audit
        return audit

    def _named(
        self, pairs: PairProbabilities, linked: LinkedRecords | None = None
    ) -> Any:
        """Return pairs by ids, in the form of the left table: a DataFrame, or `Links`."""
        if linked is None:
            linked = self._linked
        left, right = linked.searched.tables.ids(pairs.pairs)
        return in_form_of(Links(left, right, pairs.probability), self._library)

    def explain(self, left: Any, right: Any, *, top: int | None = 10) -> Explanation:
        """Return the words, n-grams and pairs of them that make two records alike.

        They add up to the learned similarity, or to the cosine.
        """
        check_is_fitted(self, "statement_")
        pair = self._pair(left, right, "explain")
        searched = self._linked.searched
        return reasons.explain_similarity(searched, self._linked.learned, pair, top)

    def explain_probability(self, left: Any, right: Any) -> Contributions:
        """Return the contributions to the probability of a pair, in log odds.

        Each column has its contribution to the log odds of a random pair. If
        classifiers count, each group of their features has its contribution to the log
        odds of known pairs. For a known pair it explains the probability without the
        answer.
        """
        check_is_fitted(self, "statement_")
        pair = self._pair(left, right, "explain_probability")
        return reasons.explain_probability(
            self._linked.searched, self._linked.learned, pair, self.n_jobs
        )

    def _pair(self, left: Any, right: Any, name: str) -> np.ndarray:
        """Return two records by their numbers; `name` stands in a message."""
        return self._linked.searched.tables.pairs([(left, right)], name)[0]

    def reasons(self, left: Any, right: Any, n: int = 6) -> list[tuple[str, float]]:
        """Return the words and pairs of words that make two records most alike.

        Each has its contribution. Character n-grams have one number, called "spelling".
        """
        explanation = self.explain(left, right)
        return reasons.reasons(self._linked.searched, explanation, n)

    def fields(self, left: Any, right: Any) -> list[Field]:
        """Return the columns of two records, side by side, those of both tables first."""
        check_is_fitted(self, "statement_")
        tables = self._linked.searched.tables
        first, second = tables.records([(left, right)], "fields")[0].tolist()
        return tables.fields(first, second)

    def records(self, links: Any) -> list[dict[str, Any]]:
        """Return links to read, or to write as a table: with texts and known answers.

        Each has the keys left, right, probability, left_text, right_text and known,
        "yes" or "".
        """
        links = as_links(links)
        tables = self._linked.searched.tables
        ends = tables.records(links, "links")
        is_match = self._linked.known.answers(np.sort(ends, axis=1)) == 1.0
        left_ids = links.left.tolist()
        right_ids = links.right.tolist()
        probability = links.probability.round(4).tolist()
        return [
            {
                "left": left_ids[k],
                "right": right_ids[k],
                "probability": probability[k],
                "left_text": tables.text(left),
                "right_text": tables.text(right),
                "known": "yes" if is_match[k] else "",
            }
            for k, (left, right) in enumerate(ends.tolist())
        ]

    # --- files ------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the tables and the fitted model to one file; ``hdsl.load`` reads it."""
        saving.save(self, path)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the tables, the known pairs, the model, and the classifiers."""
        check_is_fitted(self, "statement_")
        state = {
            "columns": self.columns,
            "id_column": self.id_column,
            "similarity": self.similarity,
            "library": self._library,
            "audit": self.audit_,
        }
        return linker_files.to_arrays(self._linked, state), {}

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> Linker:
        """Return the linker from the result of `to_arrays`."""
        linked, state = linker_files.from_arrays(arrays)
        linker = cls(state["columns"], id_column=state["id_column"])
        check_word("Linker", "similarity", state["similarity"], SIMILARITIES)
        linker.similarity = state["similarity"]
        linker.block_on = [*linked.searched.rules] or None
        linker._library = check_library(state["library"])
        linker._set(linked)
        linker.audit_ = None
        if state["audit"] is not None:
            linker.audit_ = Audit.of_answers(*map(int, state["audit"][:3]))
        return linker
