"""Kernels over comparisons: losses, slopes, pulls and the margins of an atom.

`omega` holds the weights of the comparisons, which sum to 1; one number where they are all equal,
which `omega_step` = 0 says.
"""

import numpy as np

from .compiler import CHUNK, REORDERED, kernel
from .losses import SMOOTHED_HINGE, loss, smoothed_hinge
from .pairs import place_of
from .team import finish, take, wait

#: Pairs of rows whose pulls are one task.
PAIR_BLOCK = 2048


@kernel(inline="always")
def loss_of_chunk(first, last, code, margins, omega, omega_step):
    """Return the weighted loss of the comparisons [first, last)."""
    m = margins[first:last]
    total = 0.0
    if code == SMOOTHED_HINGE and omega_step == 0:
        for t in range(m.size):
            total += smoothed_hinge(m[t], 0)
        total *= omega[0]
    else:
        for t in range(m.size):
            total += omega[(first + t) * omega_step] * loss(code, m[t], 0)
    return total


@kernel(inline="always")
def slopes_of_chunk(first, last, code, margins, direction, step, omega, omega_step):
    """Return the first two derivatives in `step` of the loss of the comparisons [first, last)."""
    m, d = margins[first:last], direction[first:last]
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
            weighted = omega[(first + t) * omega_step] * d[t]
            one += weighted * loss(code, x, 1)
            two += weighted * d[t] * loss(code, x, 2)
    return one, two


@kernel(fastmath=REORDERED)
def loss_sums(start, stop, code, margins, omega, omega_step, out):
    """Write the weighted loss of each chunk of comparisons in [start, stop)."""
    for c in range(start, stop):
        last = min((c + 1) * CHUNK, margins.size)
        out[c] = loss_of_chunk(c * CHUNK, last, code, margins, omega, omega_step)


@kernel(fastmath=REORDERED)
def slopes_along(start, stop, code, margins, direction, steps, omega, omega_step, first, second):
    """Write, by chunks, the first two derivatives of the loss along `direction` at each step.

    A chunk is in the cache for all steps but the first.
    """
    for c in range(start, stop):
        last = min((c + 1) * CHUNK, margins.size)
        for k in range(steps.size):
            first[k, c], second[k, c] = slopes_of_chunk(
                c * CHUNK, last, code, margins, direction, steps[k], omega, omega_step
            )


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
def pull_chunk(chunk, code, margins, omega, omega_step, pulls):
    """Write the pull -omega * loss'(margin) of each comparison of a chunk."""
    first, last = chunk * CHUNK, min((chunk + 1) * CHUNK, margins.size)
    if code == SMOOTHED_HINGE and omega_step == 0:
        for t in range(first, last):
            pulls[t] = -omega[0] * smoothed_hinge(margins[t], 1)
    else:
        for t in range(first, last):
            pulls[t] = -omega[t * omega_step] * loss(code, margins[t], 1)


@kernel()
def pull_pairs_once(code, margins, omega, omega_step, positive_pair, negative_pair, pulls, w):
    """Write the pulls, and add them up per pair of rows in `w` (zeros), on one thread.

    A comparison pulls at the pair that is to win and pushes at the other.
    """
    for chunk in range((margins.size + CHUNK - 1) // CHUNK):
        pull_chunk(chunk, code, margins, omega, omega_step, pulls)
    for t in range(margins.size):  # no branch on 0: it would mispredict
        w[np.uint32(positive_pair[t])] += pulls[t]
        w[np.uint32(negative_pair[t])] -= pulls[t]


@kernel()
def pull_pairs(board, phase, code, margins, omega, omega_step, term_ptr, term, pulls, w):
    """Do so on a team, in two phases; each pair sums its own terms, so no two threads share a sum.

    Term k of pair s names a comparison t that the pair is to win, or ~t where it is to lose.
    """
    n_chunks = (margins.size + CHUNK - 1) // CHUNK
    chunk = take(board, phase)
    while chunk < n_chunks:
        pull_chunk(chunk, code, margins, omega, omega_step, pulls)
        chunk = finish(board, phase)
    wait(board, phase, n_chunks)
    n_blocks = (w.size + PAIR_BLOCK - 1) // PAIR_BLOCK
    block = take(board, phase + 1)
    while block < n_blocks:
        for s in range(block * PAIR_BLOCK, min((block + 1) * PAIR_BLOCK, w.size)):
            total = 0.0
            for k in range(term_ptr[s], term_ptr[s + 1]):
                t = term[k]
                total += pulls[t] if t >= 0 else -pulls[~t]
            w[s] = total
        block = finish(board, phase + 1)
    wait(board, phase + 1, n_blocks)


@kernel()
def unfold_atom(first, last, i, j, sign, ptr, idx, val, u):
    """Write u = X[:, i] + sign * X[:, j] for the rows [first, last) (X as CSC)."""
    u[first:last] = 0.0
    end = ptr[i + 1]
    k = place_of(idx, ptr[i], end, first)
    while k < end and idx[k] < last:
        u[idx[k]] = val[k]
        k += 1
    end = ptr[j + 1]
    k = place_of(idx, ptr[j], end, first)
    while k < end and idx[k] < last:
        u[idx[k]] += sign * val[k]
        k += 1


@kernel()
def add_margins_of_chunk(first, last, factor, anchor_ptr, a, b, c, d, u, out):
    """Add factor * (u[a] u[b] - u[c] u[d]) to the comparisons [first, last).

    `anchor_ptr` says where the triplets of each anchor begin, and then a = c; it is empty for
    quadruplets. Only triplets whose anchor has a feature of the atom are visited.
    """
    if anchor_ptr.size == 0:
        for t in range(first, last):
            out[t] += factor * (u[a[t]] * u[b[t]] - u[c[t]] * u[d[t]])
        return
    row = a[first]
    while row < anchor_ptr.size - 1 and anchor_ptr[row] < last:
        if u[row] != 0.0:
            pull = factor * u[row]
            for t in range(max(first, anchor_ptr[row]), min(last, anchor_ptr[row + 1])):
                out[t] += pull * (u[b[t]] - u[d[t]])
        row += 1


@kernel()
def add_margins(start, stop, factor, anchor_ptr, a, b, c, d, u, out):
    """Do so for the chunks [start, stop)."""
    first, last = start * CHUNK, min(stop * CHUNK, out.size)
    add_margins_of_chunk(first, last, factor, anchor_ptr, a, b, c, d, u, out)
