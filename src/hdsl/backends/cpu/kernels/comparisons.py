"""Kernels over comparisons: losses, slopes, pulls and the margins of an atom.

`omega` holds the weights of the comparisons, which sum to 1; one number where they are all equal,
which `omega_step` = 0 says.
"""

import numpy as np

from .compiler import CHUNK, REORDERED, kernel
from .losses import SMOOTHED_HINGE, loss, smoothed_hinge


@kernel(fastmath=REORDERED)
def loss_sums(start, stop, code, margins, omega, omega_step, out):
    """Write the weighted loss of each chunk of comparisons in [start, stop)."""
    for c in range(start, stop):
        first, last = c * CHUNK, min((c + 1) * CHUNK, margins.size)
        total = 0.0
        if code == SMOOTHED_HINGE and omega_step == 0:
            for t in range(first, last):
                total += smoothed_hinge(margins[t], 0)
            total *= omega[0]
        else:
            for t in range(first, last):
                total += omega[t * omega_step] * loss(code, margins[t], 0)
        out[c] = total


@kernel(fastmath=REORDERED)
def slopes_along(start, stop, code, margins, direction, step, omega, omega_step, first, second):
    """Write, by chunks, the first two derivatives in `step` of the loss along `direction`."""
    for c in range(start, stop):
        m = margins[c * CHUNK : min((c + 1) * CHUNK, margins.size)]
        d = direction[c * CHUNK : min((c + 1) * CHUNK, margins.size)]
        one = 0.0
        two = 0.0
        if code == SMOOTHED_HINGE and omega_step == 0:
            for t in range(m.size):
                x = m[t] + step * d[t]
                one += d[t] * smoothed_hinge(x, 1)
                two += d[t] * d[t] if smoothed_hinge(x, 2) > 0.0 else 0.0
            one *= omega[0]
            two *= omega[0]
        else:
            for t in range(m.size):
                x = m[t] + step * d[t]
                weighted = omega[(c * CHUNK + t) * omega_step] * d[t]
                one += weighted * loss(code, x, 1)
                two += weighted * d[t] * loss(code, x, 2)
        first[c] = one
        second[c] = two


@kernel()
def advance(start, stop, margins, direction, step, out):
    """Write margins + step * direction for the chunks [start, stop)."""
    for t in range(start * CHUNK, min(stop * CHUNK, margins.size)):
        out[t] = margins[t] + step * direction[t]


@kernel()
def any_nonzero(values):
    """Return whether any of the values is not zero; as a rule the first ones decide."""
    for x in values:  # noqa: SIM110 - compiled code knows no generators
        if x != 0.0:
            return True
    return False


@kernel(fastmath=REORDERED)
def dots(start, stop, a, b, out):
    """Write the inner product of two vectors by chunks."""
    for c in range(start, stop):
        total = 0.0
        for t in range(c * CHUNK, min((c + 1) * CHUNK, a.size)):
            total += a[t] * b[t]
        out[c] = total


@kernel()
def pull_pairs(
    start, stop, bounds, code, margins, omega, omega_step, positive_pair, negative_pair, pulls, w
):
    """Write the pull -omega * loss'(margin) of each comparison, and sum the pulls per pair of rows.

    A comparison pulls at the pair that is to win and pushes at the other. Part p of the
    comparisons, those between its `bounds`, is summed into w[p] (zeros), so parts can run at once.
    """
    for part in range(start, stop):
        own = w[part]
        if code == SMOOTHED_HINGE and omega_step == 0:
            for t in range(bounds[part], bounds[part + 1]):
                pulls[t] = -omega[0] * smoothed_hinge(margins[t], 1)
        else:
            for t in range(bounds[part], bounds[part + 1]):
                pulls[t] = -omega[t * omega_step] * loss(code, margins[t], 1)
        for t in range(bounds[part], bounds[part + 1]):  # no branch on 0: it would mispredict
            own[np.uint32(positive_pair[t])] += pulls[t]
            own[np.uint32(negative_pair[t])] -= pulls[t]


@kernel()
def add_atom_margins(i, j, sign, factor, ptr, idx, val, anchor_ptr, positive, negative, u, out):
    """Add factor * u[a] * (u[p] - u[q]) to each triplet, u = X[:, i] + sign * X[:, j] (X as CSC).

    Only triplets whose anchor has one of the two features are visited. `u` is a work vector of
    zeros, one number per row, and is left as zeros.
    """
    for k in range(ptr[i], ptr[i + 1]):
        u[idx[k]] += val[k]
    for k in range(ptr[j], ptr[j + 1]):
        u[idx[k]] += sign * val[k]
    k, q = ptr[i], ptr[j]
    while k < ptr[i + 1] or q < ptr[j + 1]:
        # The next row of the two columns merged.
        if q == ptr[j + 1] or (k < ptr[i + 1] and idx[k] <= idx[q]):
            a = idx[k]
            if q < ptr[j + 1] and idx[q] == a:
                q += 1
            k += 1
        else:
            a = idx[q]
            q += 1
        pull = factor * u[a]
        for t in range(anchor_ptr[a], anchor_ptr[a + 1]):
            out[t] += pull * (u[positive[t]] - u[negative[t]])
    for k in range(ptr[i], ptr[i + 1]):
        u[idx[k]] = 0.0
    for k in range(ptr[j], ptr[j + 1]):
        u[idx[k]] = 0.0


@kernel()
def _add_pair_margins(a, factor, link_ptr, neighbor, pair, term_ptr, term, u, out):
    """Add the margins of the pairs whose first row is `a`."""
    for e in range(link_ptr[a], link_ptr[a + 1]):
        b = neighbor[e]
        s = pair[e]
        # A row with itself is listed twice in a row, and counts once.
        if b < a or u[b] == 0.0 or (b == a and e > link_ptr[a] and pair[e - 1] == s):
            continue
        value = factor * u[a] * u[b]
        for q in range(term_ptr[s], term_ptr[s + 1]):
            t = term[q]
            if t >= 0:
                out[t] += value
            else:
                out[~t] -= value


@kernel()
def add_atom_margins_by_pairs(
    i, j, sign, factor, ptr, idx, val, link_ptr, neighbor, pair, term_ptr, term, u, out
):
    """Do so for comparisons of any two pairs of rows.

    Term k of pair s names a comparison t that the pair is to win, or ~t where it is to lose.
    """
    for k in range(ptr[i], ptr[i + 1]):
        u[idx[k]] += val[k]
    for k in range(ptr[j], ptr[j + 1]):
        u[idx[k]] += sign * val[k]
    for column in (i, j):
        seen = ptr[i] if column == j else ptr[i + 1]  # rows of column i come once
        for k in range(ptr[column], ptr[column + 1]):
            a = idx[k]
            while seen < ptr[i + 1] and idx[seen] < a:
                seen += 1
            if seen < ptr[i + 1] and idx[seen] == a:
                continue
            _add_pair_margins(a, factor, link_ptr, neighbor, pair, term_ptr, term, u, out)
    for k in range(ptr[i], ptr[i + 1]):
        u[idx[k]] = 0.0
    for k in range(ptr[j], ptr[j + 1]):
        u[idx[k]] = 0.0
