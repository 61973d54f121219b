"""The paper in dense matrices, slow and obvious: what every fast path is compared with.

Nothing here knows the library. Matrices are formed whole, sums run over comparisons,
the best atom is found by trying all. Feature numbers are columns of X, margins have the
order of the comparisons.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

TAIL = -30.0  # where the exponential loss turns into its tangent

# value, derivative and second derivative of each loss at an array of margins
LOSSES = {
    "smoothed_hinge": (
        lambda m: np.where(m >= 1, 0, np.where(m <= 0, 0.5 - m, 0.5 * (1 - m) ** 2)),
        lambda m: np.where(m >= 1, 0, np.where(m <= 0, -1, m - 1)),
        lambda m: np.where((m > 0) & (m < 1), 1.0, 0.0),
    ),
    "squared_hinge": (
        lambda m: np.maximum(0, 1 - m) ** 2,
        lambda m: -2 * np.maximum(0, 1 - m),
        lambda m: np.where(m < 1, 2.0, 0.0),
    ),
    "logistic": (
        lambda m: np.logaddexp(0, -m),
        lambda m: -np.exp(-np.logaddexp(0, m)),
        lambda m: np.exp(-np.logaddexp(0, m) - np.logaddexp(0, -m)),
    ),
    "exponential": (
        lambda m: np.exp(-np.maximum(m, TAIL)) * (1 + np.maximum(TAIL - m, 0)),
        lambda m: -np.exp(-np.maximum(m, TAIL)),
        lambda m: np.where(m >= TAIL, np.exp(-np.maximum(m, TAIL)), 0.0),
    ),
}
SMOOTHNESS = {
    "smoothed_hinge": 1.0,
    "squared_hinge": 2.0,
    "logistic": 0.25,
    "exponential": np.exp(-TAIL),
}


def all_atoms(d):
    """Return all d(d - 1) atoms, the smallest (i, j, -sign) first."""
    return [(i, j, sign) for i, j in combinations(range(d), 2) for sign in (1, -1)]


def atom_vector(atom, d):
    """Return e_i + sign·e_j."""
    i, j, sign = atom
    vector = np.zeros(d)
    vector[i] = 1
    vector[j] = sign
    return vector


def atom_matrix(atom, d, scale):
    """Return λ(e_i + sign·e_j)(e_i + sign·e_j)ᵀ."""
    vector = atom_vector(atom, d)
    return scale * np.outer(vector, vector)


def model_matrix(atoms, weights, d, scale):
    """Return M, the combination of the atoms."""
    M = np.zeros((d, d))
    for atom, weight in zip(atoms, weights, strict=True):
        M += weight * atom_matrix(atom, d, scale)
    return M


def fixed_matrix(fixed, d):
    """Return the diagonal matrix of the fixed parts of a similarity without norms."""
    weights = np.full(d, np.nan)  # every column must have a part
    for block in fixed:
        weights[block.start : block.stop] = block.weight
    return np.diag(weights)


def similarity_matrix(similarity):
    """Return the matrix S of a similarity without norms: S(x, y) = xᵀSy."""
    d = similarity.n_features
    M = model_matrix(similarity.atoms, similarity.weights, d, similarity.scale)
    return fixed_matrix(similarity.fixed, d) + M + embedding_part(similarity)


def embedding_part(similarity):
    """Return the matrix of d × d with W = Σ vvᵀ in its last rows and columns."""
    d = similarity.n_features
    W = np.zeros((d, d))
    if similarity.directions is not None:
        for v in similarity.directions:
            W[-len(v) :, -len(v) :] += np.outer(v, v)
    return W


def is_psd(M):
    """Return whether M is symmetric and positive semi-definite, but for rounding."""
    return (
        np.array_equal(M, M.T) and np.linalg.eigvalsh(M)[0] >= -1e-13 * np.abs(M).max()
    )


def bisect(slope, low, high):
    """Return where a rising function crosses zero in [low, high], to the last bit."""
    if slope(low) >= 0:
        return low
    if slope(high) <= 0:
        return high
    while low < (middle := 0.5 * (low + high)) < high:
        if slope(middle) < 0:
            low = middle
        else:
            high = middle
    return high


class Bounds(NamedTuple):
    """The optimum: a value that is reached, and one that is proved not to be undercut."""

    upper: float
    lower: float


@dataclass
class Problem:
    """Minimise the weighted mean loss of ⟨Aᵗ, prior·I + M⟩ over the hull of all atoms.

    `triplets` may also be quadruplets (a, b, c, d), which say S(a, b) > S(c, d). `loss`
    is a name, or an object with value, derivative and curvature.
    """

    X: np.ndarray = field(repr=False)
    triplets: np.ndarray = field(repr=False)
    loss: object
    scale: float
    prior: float = 0.0
    weights: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        self.d = self.X.shape[1]
        self.T = len(self.triplets)
        weights = np.ones(self.T)
        if self.weights is not None:
            weights = self.weights
        self.omega = weights / weights.sum()
        if isinstance(self.loss, str):
            self.ell, self.ell1, self.ell2 = LOSSES[self.loss]
        else:
            self.ell = self.loss.value
            self.ell1 = self.loss.derivative
            self.ell2 = self.loss.curvature

    def subproblem(self, subset):
        """Return the problem of these comparisons alone."""
        weights = self.weights
        if weights is not None:
            weights = weights[subset]
        return replace(self, triplets=self.triplets[subset], weights=weights)

    @property
    def sides(self):
        """Rows a, b, c and d of X of every comparison S(a, b) > S(c, d)."""
        if self.triplets.shape[1] == 3:  # S(a, b) > S(a, d)
            a, b, d = self.triplets.T
            c = a
        else:
            a, b, c, d = self.triplets.T
        return self.X[a], self.X[b], self.X[c], self.X[d]

    @cached_property
    def A(self):
        """Aᵗ = x_a x_bᵀ - x_c x_dᵀ of every comparison."""
        a, b, c, d = self.sides
        return a[:, :, None] * b[:, None, :] - c[:, :, None] * d[:, None, :]

    @cached_property
    def offset(self):
        """Margins of the prior alone."""
        return self.prior * np.trace(self.A, axis1=1, axis2=2)

    def margins(self, atoms, weights):
        """Return the margins of prior·I + M."""
        return self.offset + self.margins_of(
            model_matrix(atoms, weights, self.d, self.scale)
        )

    def margins_of(self, M):
        """Return ⟨Aᵗ, M⟩."""
        return (self.A * M).sum(axis=(1, 2))

    def value(self, margins):
        """Return f."""
        return self.omega @ self.ell(margins)

    def gradient(self, margins):
        """Return ∇f, d × d."""
        return np.tensordot(self.omega * self.ell1(margins), self.A, axes=1)

    def scores(self, margins, atoms):
        """Return ⟨B, -∇f⟩ of each atom B."""
        G = self.gradient(margins)
        vectors = np.array([atom_vector(atom, self.d) for atom in atoms])
        return -self.scale * np.einsum("ni,ij,nj->n", vectors, G, vectors)

    def best_atom(self, margins):
        """Return the largest score and the first atom that has it, by trying all."""
        atoms = all_atoms(self.d)
        scores = self.scores(margins, atoms)
        k = int(np.argmax(scores))
        return scores[k], atoms[k]

    def gap(self, M, margins):
        """Return max over all atoms B of ⟨M - B, ∇f⟩."""
        return self.best_atom(margins)[0] + (M * self.gradient(margins)).sum()

    def lipschitz(self):
        """Return L of Proposition 1."""
        return SMOOTHNESS[self.loss] * (self.omega @ (self.A**2).sum(axis=(1, 2)))

    @cached_property
    def vertices(self):
        """Margins of every atom, T × d(d - 1)."""
        return np.column_stack(
            [self.margins([atom], [1.0]) for atom in all_atoms(self.d)]
        )

    def margin_size(self):
        """Return the largest margin there can be, at least 1: what rounding is relative to."""
        return max(1.0, np.abs(self.vertices).max(), np.abs(self.offset).max())

    def score_size(self, margins):
        """Return the sum of the sizes of all that is added up in a score."""
        a, b, c, d = np.abs(self.sides).max(axis=2)
        pulls = self.omega * np.abs(self.ell1(margins))
        return 4 * self.scale * pulls @ (a * b + c * d)

    def line_search(self, margins, direction, max_step):
        """Return the best step by bisection of the slope, to the last bit."""
        return bisect(partial(self.slope, margins, direction), 0.0, max_step)

    def slope(self, margins, direction, step):
        """Return the derivative of f along a direction, at a step size."""
        return (self.omega * direction) @ self.ell1(margins + step * direction)

    def curvature(self, margins, direction, step):
        """Return the second derivative of f along a direction, at a step size."""
        return (self.omega * direction**2) @ self.ell2(margins + step * direction)

    def optimum(self):
        """Return bounds on the least value, by a barrier method on the weights of all atoms.

        The lower bound is f - max ⟨M - B, ∇f⟩ and so holds however well the method
        does.
        """
        V = self.vertices
        omega = self.omega
        n = V.shape[1]
        alpha = np.full(n, 1 / n)
        upper = np.inf
        lower = 0.0
        mu = max(1.0, self.value(V @ alpha))
        for _ in range(150):
            margins = V @ alpha
            value = self.value(margins)
            G = V.T @ (omega * self.ell1(margins))
            upper = min(upper, value)
            lower = max(lower, value - (G @ alpha - G.min()))
            if upper - lower <= 1e-11 * max(1.0, upper):
                break
            # A Newton step on value - mu Σ log alpha with Σ alpha = 1, in units of
            # alpha.
            G -= G.min()  # as good a gradient on the simplex, and without cancellation
            U = V * alpha
            H = (U.T * (omega * self.ell2(margins))) @ U + mu * np.eye(n)
            try:
                free, price = np.linalg.solve(
                    H, np.column_stack([mu - G * alpha, alpha])
                ).T
            except np.linalg.LinAlgError:  # floats hold no more
                break
            change = free - (free @ alpha) / (price @ alpha) * price
            decrement = change @ (mu - G * alpha)
            if decrement <= 1e-2 * mu:
                mu /= 10
                if mu < 1e-15 * max(1.0, upper):
                    break
                continue
            slope = partial(self._barrier_slope, margins, U @ change, change, mu)
            longest = min(1.0, 0.99 / max(-change.min(), 0.99))  # weights stay positive
            alpha *= 1 + bisect(slope, 0.0, longest) * change
            alpha /= alpha.sum()
        return Bounds(upper, lower)

    def _barrier_slope(self, margins, direction, change, mu, step):
        return (
            self.slope(margins, direction, step)
            - mu * (change / (1 + step * change)).sum()
        )


def frank_wolfe(problem, step, n_iter):
    """Yield (value, {atom: weight}, step size) of the paper's Algorithm 1 (forward) or 3 (away)."""
    atoms = all_atoms(problem.d)
    column = dict(zip(atoms, problem.vertices.T, strict=True))
    _, start = problem.best_atom(problem.offset)
    weights = {start: 1.0}
    size = 1.0
    for _ in range(n_iter + 1):
        margins = sum(weight * column[atom] for atom, weight in weights.items())
        yield problem.value(margins), dict(weights), size
        score = dict(zip(atoms, problem.scores(margins, atoms), strict=True))
        toward = max(atoms, key=score.get)
        worst = min(weights, key=score.get)
        mean_score = sum(weight * score[atom] for atom, weight in weights.items())
        gain_toward = score[toward] - mean_score
        gain_away = mean_score - score[worst]
        if step == "forward" or gain_toward >= gain_away:
            direction = column[toward] - margins
            max_step = 1.0
            change = {atom: -weight for atom, weight in weights.items()}
            change[toward] = change.get(toward, 0.0) + 1.0
        else:
            alpha = weights[worst]
            direction = margins - column[worst]
            max_step = alpha / (1 - alpha)
            change = dict(weights)
            change[worst] -= 1.0
        size = problem.line_search(margins, direction, max_step)
        for atom, rate in change.items():
            weights[atom] = weights.get(atom, 0.0) + size * rate
        weights = {atom: weight for atom, weight in weights.items() if weight > 1e-15}


# --- search and vote ------------------------------------------------------------------


def top_k(queries, index, k, exclude_self=False):
    """Return scores and rows, the largest inner products first, the smaller row of equals."""
    scores = []
    rows = []
    for query, products in enumerate(queries @ index.T):
        candidates = [
            row for row in range(len(index)) if not (exclude_self and row == query)
        ]
        best = sorted(candidates, key=lambda row, s=products: (-s[row], row))[:k]
        scores.append(products[best])
        rows.append(best)
    return np.array(scores), np.array(rows)


def pair_products(X, pairs):
    """The inner product of each pair of rows."""
    return [X[a] @ X[b] for a, b in pairs]


def pair_overlaps(X, pairs):
    """The inner product of each pair, and its largest and smallest difference, or 0."""
    differences = [X[a] - X[b] for a, b in pairs]
    limits = [
        (difference.max(initial=0.0), difference.min(initial=0.0))
        for difference in differences
    ]
    products = pair_products(X, pairs)
    overlaps = [
        (product, *limit) for product, limit in zip(products, limits, strict=True)
    ]
    return np.array(overlaps).reshape(-1, 3)


def pair_sums(X, pairs, weights):
    """Weighted sums of smaller values and of differences, over the first features."""
    X = X[:, : len(weights)]
    return [
        np.minimum(X[a], X[b]) @ weights[:, 0] + abs(X[a] - X[b]) @ weights[:, 1]
        for a, b in pairs
    ]


def vote(classes, weights):
    """Return the shares of the votes and the winner, the class of the nearest of equals."""
    if not any(weights):
        weights = [1.0] * len(weights)
    votes = dict.fromkeys(classes, 0.0)
    for c, weight in zip(classes, weights, strict=True):
        votes[c] += weight
    largest = max(votes.values())
    winner = next(c for c in classes if votes[c] == largest)
    return {c: share / sum(weights) for c, share in votes.items()}, winner


def partner_values(C, features, after):
    """Return C_jj + |S_ij| for each feature i and every j; -inf where j is i, or no j > i."""
    values = np.diag(C) + np.abs(C + C.T)
    np.fill_diagonal(values, -np.inf)
    if after:
        values[np.tril_indices_from(values)] = -np.inf
    return values[features]


def check_partners(partners, C, features, after, tolerance):
    """Fail unless value and entry are those of the partner named, and no other is better."""
    rows = partner_values(C, features, after)
    for row, i, value, j, entry in zip(rows, features, *partners, strict=True):
        if row.max() == -np.inf:
            assert (value, j, entry) == (-np.inf, -1, 0.0)
        else:
            assert row[j] >= row.max() - tolerance
            assert abs(value - row[j]) <= tolerance
            assert abs(entry - (C[i, j] + C[j, i])) <= tolerance


def climb(C, S, starts):
    """Return the best atom of two half steps, and the features whose partners were looked for.

    `C` is minus the gradient and `S` its symmetric part, twice.
    """

    def pair(i):
        values = np.diag(C) + np.abs(S[i])
        values[i] = -np.inf
        return i, int(np.argmax(values))

    def rank(features):
        i, j = sorted(features)
        return -(C[i, i] + C[j, j] + abs(S[i, j])), i, j

    first = sorted(set(starts))
    looks = [first]
    pairs = [pair(i) for i in first]
    second = sorted({j for _, j in pairs} - set(first))
    if second:
        looks.append(second)
        pairs += [pair(i) for i in second]
    i, j = sorted(min(pairs, key=rank))
    sign = 1
    if S[i, j] < 0.0:
        sign = -1
    return (i, j, sign), looks


def landmark_pairs(X, y, is_landmark, n_centers, weights=None):
    """Return (row, own landmarks without the row, landmarks of another class, weight), slowly.

    For classes of landmarks so few that each is left out alone. The others are those of
    the nearest means.
    """
    if weights is None:
        weights = np.ones(len(X))
    weights = np.asarray(weights, dtype=float)
    landmarks = {
        c: [k for k in np.flatnonzero(is_landmark & (y == c)) if weights[k] > 0]
        for c in set(y)
    }
    means = {
        c: np.average(X[rows], axis=0, weights=weights[rows])
        for c, rows in landmarks.items()
        if rows
    }
    pairs = []
    for row in np.flatnonzero(weights):
        same = [k for k in landmarks[y[row]] if k != row]
        other_classes = [c for c in means if c != y[row]]
        nearest = sorted(
            other_classes, key=lambda c, x=X[row]: (-float(x @ means[c]), c)
        )
        nearest = nearest[:n_centers]
        if same:
            weight = weights[row] / max(1, len(nearest))
            pairs += [(row, same, landmarks[c], weight) for c in nearest]
    return pairs, weights


def landmark_comparisons(X, y, is_landmark, n_centers):
    """Return rows with two means for each margin, triplets of these, and their weights."""
    pairs, _ = landmark_pairs(X, y, is_landmark, n_centers)
    means = []
    triplets = []
    weights = []
    for row, same, other, weight in pairs:
        first = len(X) + len(means)
        means += [X[same].mean(axis=0), X[other].mean(axis=0)]
        triplets.append((row, first, first + 1))
        weights.append(weight)
    return np.vstack([X, *means]), np.array(triplets), np.array(weights)


def atom_margins(problem, atoms):
    """Return the margins of each atom without the prior's, shape (T, n_atoms)."""
    columns = [
        problem.margins_of(atom_matrix(atom, problem.d, problem.scale))
        for atom in atoms
    ]
    return np.array(columns).reshape(len(atoms), problem.T).T


def best_change(curvature, scores, weights):
    """Return the δ with weights + δ on the simplex that maximises scores·δ - δᵀ curvature δ / 2.

    It tries every set of atoms that may have a weight, and solves for their best
    weights.
    """
    n = len(weights)
    linear = scores + curvature @ weights
    best_gain = -np.inf
    best = np.zeros(n)
    for size in range(1, n + 1):
        for support in map(list, combinations(range(n), size)):
            system = np.ones((size + 1, size + 1))
            system[:size, :size] = curvature[np.ix_(support, support)]
            system[size, size] = 0.0
            right = np.append(linear[support], weights.sum())
            solution = np.linalg.lstsq(system, right, rcond=None)[0]
            new = np.zeros(n)
            new[support] = solution[:size]
            change = new - weights
            gain = scores @ change - change @ curvature @ change / 2
            is_allowed = new.min() >= -1e-12 and abs(change.sum()) <= 1e-9
            if is_allowed and gain > best_gain:
                best_gain = gain
                best = change
    return best


def best_value_of_weights(problem, V):
    """Return the least value over the weights of atoms with margins V, by projected gradients."""
    weights = np.full(V.shape[1], 1 / V.shape[1])
    size = 1.0 / (
        SMOOTHNESS[problem.loss] * np.linalg.norm(V.T * problem.omega @ V, 2) + 1e-300
    )
    for _ in range(3000):
        slopes = V.T @ (problem.omega * problem.ell1(problem.offset + V @ weights))
        weights = project_to_simplex(weights - size * slopes)
    return problem.value(problem.offset + V @ weights)


def project_to_simplex(v):
    """Return the nearest point with no negative entry and a sum of 1."""
    falling = np.sort(v)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(v) + 1)
    return np.maximum(v - excess[np.flatnonzero(falling > excess)[-1]], 0.0)


def bm25(counts, fitted, k1, b, lengths):
    """BM25 weights of dense counts, term by term; `fitted` are the documents counted."""
    n = len(fitted)
    average = fitted.sum() / n
    Z = np.zeros(counts.shape)
    for d, document in enumerate(counts):
        length = document.sum()
        if lengths == "lucene":
            length = max(size for size in lucene_lengths() if size <= length)
        for t, count in enumerate(document):
            n_with = (fitted[:, t] > 0).sum()
            idf = np.log(1 + (n - n_with + 0.5) / (n_with + 0.5))
            if count:
                share = 1.0
                if average:
                    share = length / average
                Z[d, t] = idf * (k1 + 1) * count / (count + k1 * (1 - b + b * share))
    return Z


def lucene_lengths():
    """The 256 lengths of Lucene's byte: 0 to 23, then 24 plus numbers of 4 significant bits."""
    large = [(code % 8 + 8) << (code // 8 - 1) for code in range(8, 232)]
    return [*range(24), *range(24, 32), *(24 + number for number in large)]


def rank_measures(ranking, grades, k):
    """Reciprocal rank, precision@k and nDCG@k of one query, rank by rank."""
    reciprocal = 0.0
    for rank, document in enumerate(ranking, 1):
        if document in grades and not reciprocal:
            reciprocal = 1 / rank
    gain = 0
    n_right = 0
    for rank, document in enumerate(ranking[:k], 1):
        gain += grades.get(document, 0) / np.log2(1 + rank)
        n_right += document in grades
    ideal = sorted(grades.values(), reverse=True)[:k]
    best = sum(grade / np.log2(1 + rank) for rank, grade in enumerate(ideal, 1))
    return reciprocal, n_right / k, gain / best


# --- ranks among all rows -------------------------------------------------------------


def judged_ranks(search, similarity, ranking):
    """Return the ranks of judged rows from all scores, dense; ties share the middle rank."""
    scores = similarity.pairwise(search.queries, search.rows)
    if ranking == "cosine":
        own = np.diag(similarity.pairwise(search.rows))
        scores = scores / np.sqrt(np.where(own > 0, own, 1.0))
    for query, hidden in enumerate(search.hidden_rows):
        if hidden >= 0:
            scores[query, hidden] = -np.inf
    ranks = []
    for query, row in zip(search.judged_queries, search.judged_rows, strict=True):
        target = scores[query, row]
        n_above = np.sum(scores[query] > target + 1e-9)
        n_from = np.sum(scores[query] > target - 1e-9)
        ranks.append(n_above + (n_from - n_above + 1) / 2)
    return np.array(ranks)


def count_ranks(products, lengths, starts, upper, lower):
    """Return how many scores of each query are above its thresholds, and reach them."""
    scores = products / lengths
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    n_above = [np.sum(scores[q] > t) for q, t in zip(owners, upper, strict=True)]
    n_from = [np.sum(scores[q] >= t) for q, t in zip(owners, lower, strict=True)]
    return np.array(n_above, dtype=int), np.array(n_from, dtype=int)


def discounted_gains(ranks, grades, queries):
    """Return the gain of each query as a share of the largest possible."""
    gains = []
    for query in np.unique(queries):
        judged = [
            (rank, grade)
            for rank, grade, owner in zip(ranks, grades, queries, strict=True)
            if owner == query
        ]
        gain = sum(grade / np.log2(1 + rank) for rank, grade in judged)
        best_grades = sorted((grade for _, grade in judged), reverse=True)
        best = sum(
            grade / np.log2(1 + rank) for rank, grade in enumerate(best_grades, 1)
        )
        gains.append(gain / best)
    return np.array(gains)


def win_rates(triplets):
    """Return how often rows of each anchor win, where a loss counts as the slope says."""
    pairs = sorted({(anchor, row) for anchor, *rows in triplets for row in rows})
    won = dict.fromkeys(pairs, 0.0)
    lost = dict.fromkeys(pairs, 0.0)
    for anchor, winner, loser in triplets:
        won[anchor, winner] += 1.0
        lost[anchor, loser] += 1.0
    squares = 0.0
    products = 0.0
    for anchor in {anchor for anchor, _ in pairs}:
        own = [pair for pair in pairs if pair[0] == anchor]
        mean_won = np.mean([won[pair] for pair in own])
        mean_lost = np.mean([lost[pair] for pair in own])
        squares += sum((won[pair] - mean_won) ** 2 for pair in own)
        products += sum((won[p] - mean_won) * (lost[p] - mean_lost) for p in own)
    slope = squares / -products if products < -1e-9 else 1.0
    return {pair: won[pair] / (won[pair] + slope * lost[pair]) for pair in pairs}


def worth_of_shown(X, triplets, power):
    """Return the place by cosine and the credit of each row that an anchor is compared with."""
    rates = win_rates(triplets.tolist())
    worth_of = {}
    for anchor, row in rates:
        cosine = X[anchor] @ X[row]
        nearer = [
            other
            for owner, other in rates
            if owner == anchor and X[anchor] @ X[other] > cosine
        ]
        place = 1 + len(nearer)
        worth_of[anchor, row] = (place, rates[anchor, row] * place**power)
    return worth_of


def credited_gains(ranks, credits, queries, unseen):
    """Return what each query gains by its rows beyond unseen ones, over the best mean."""
    gains = []
    best = []
    for query in np.unique(queries):
        shown = [
            (rank, credit - unseen)
            for rank, credit, owner in zip(ranks, credits, queries, strict=True)
            if owner == query
        ]
        gains.append(sum(worth / np.log2(1 + rank) for rank, worth in shown))
        worths = sorted((max(worth, 0.0) for _, worth in shown), reverse=True)
        best.append(
            sum(worth / np.log2(1 + rank) for rank, worth in enumerate(worths, 1))
        )
    return np.array(gains) / (np.mean(best) or 1.0)


def grades_of_triplets(triplets, weights):
    """Return the share of comparisons with an anchor that a row wins, where it is positive."""
    won = {}
    compared = {}
    for (anchor, winner, loser), weight in zip(triplets, weights, strict=True):
        won[anchor, winner] = won.get((anchor, winner), 0.0) + weight
        for row in (winner, loser):
            compared[anchor, row] = compared.get((anchor, row), 0.0) + weight
    return {
        pair: wins / compared[pair]
        for pair, wins in won.items()
        if wins > 0 and pair[0] != pair[1]
    }


def column_keys(X, compared):
    """Return the compared rows per column, and their sums of |x_j| (Σ |x|)²."""
    rows = np.abs(X[np.unique(compared)])
    rows /= np.abs(X).max() or 1.0
    lengths = rows.sum(axis=1)
    return np.array([np.count_nonzero(rows, axis=0), (rows.T * lengths**2).sum(axis=1)])


def remembered(similarities, grades, weight, power, density=0.0):
    """Return what a query gets for each document: a mean near the query, shrunken."""
    added = np.zeros(grades.shape[1])
    total = 0.0
    for similarity, of_query in zip(similarities, grades, strict=True):
        if not (of_query > 0).any():
            continue
        closeness = max(similarity, 0.0) ** power
        total += closeness
        relevant = np.maximum(of_query, 0.0)
        added += closeness * relevant / np.sqrt((relevant**2).sum())
    if total == 0.0:
        return added
    return weight * np.sqrt(total / (total + density)) * added / total


def ndcg(scores, grades, k=10):
    """Return Σ grade / log2(1 + rank) of the first k, as a share of the largest possible."""
    discounts = 1 / np.log2(1 + np.arange(1, k + 1))
    order = np.argsort(-scores, kind="stable")[:k]
    best = np.sort(grades)[::-1][:k]
    return (grades[order] @ discounts[: len(order)]) / (best @ discounts[: len(best)])


def tried_memories(cosines, similarities, grades, shares, powers):
    """Return share, power, weight and mean nDCG@10 where each query in turn is new."""
    n_queries = len(grades)
    best_similarity = cosines.max(axis=1).mean()
    alone = [ndcg(cosines[q], grades[q]) for q in range(n_queries)]
    tried = [(0.0, 1.0, 0.0, np.mean(alone))]
    for power in powers:
        others = np.where(similarities < 1 - 1e-6, similarities, 0.0)
        others[np.arange(n_queries), np.arange(n_queries)] = 0.0
        density = (np.maximum(others, 0.0) ** power).sum(axis=1).mean()
        added = [remembered(row, grades, 1.0, power, density) for row in others]
        best = np.mean([row.max() for row in added])
        if best == 0.0:
            continue
        for share in shares:
            weight = share * best_similarity / best
            ndcgs = [
                ndcg(cosines[q] + weight * added[q], grades[q])
                for q in range(n_queries)
            ]
            tried.append((share, power, weight, np.mean(ndcgs)))
    return np.array(tried)


def log_odds_of_pair(mixture, levels, rarity):
    """The log odds of a pair by a mixture of matches and others, column by column."""
    levels = [int(level) for level in levels]
    added = {}
    rare = {}
    for column, level in enumerate(levels):
        if level < 0:
            added[column] = 0.0
        else:
            share_of_matches = mixture.matches[column, level]
            added[column] = math.log(share_of_matches / mixture.others[column, level])
        rare[column] = float(rarity[column])
    for (a, b), strength in zip(mixture.ties.tolist(), mixture.strength, strict=True):
        if levels[a] < 0 or levels[b] < 0:
            continue
        chance = {
            column: -math.log(mixture.others[column, levels[column]])
            for column in (a, b)
        }
        weaker = a if chance[a] < chance[b] else b
        tied = min(float(strength[levels[a], levels[b]]), chance[weaker])
        added[weaker] -= tied
        rare[weaker] *= 1.0 - tied / chance[weaker]
    prior = math.log(mixture.rate / (1.0 - mixture.rate))
    log_odds = prior + sum(added.values()) + sum(rare.values())
    slope, intercept = mixture.doubt
    return min(log_odds, slope * log_odds + intercept)
