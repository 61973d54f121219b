"""Kernels of a step: the direction of a move, the line search along it, and the new margins."""

import numpy as np

from .comparisons import add_margins_of_chunk, loss_of_chunk, slopes_of_chunk, unfold_atom
from .compiler import CHUNK, REORDERED, ROW_BLOCK, kernel
from .team import finish, gather, part, take, wait

#: Most evaluations of a line search, as in ``core.line_search``.
MOST_TRIALS = 200

#: Phases of a step: the atoms by rows, the direction, two per trial and one more, the new margins.
N_PHASES = 2 * MOST_TRIALS + 8

# The state of a line search: the place, its slope and curvature, the bracket and its slopes.
_STEP, _SLOPE, _CURVATURE, _LOW, _LOW_SLOPE, _HIGH, _HIGH_SLOPE, _LIMIT, _TINY = range(9)
STATE_SIZE = 9


@kernel()
def begin_search(state, slope, curvature, limit):
    """Begin a search for the smallest value in [0, limit]; return whether it goes downhill."""
    state[_STEP], state[_SLOPE], state[_CURVATURE] = 0.0, slope, curvature
    state[_LOW], state[_LOW_SLOPE], state[_HIGH], state[_HIGH_SLOPE] = 0.0, slope, limit, np.nan
    state[_LIMIT], state[_TINY] = limit, 4e-16 * -slope
    return slope < 0.0 and limit > 0.0


@kernel()
def next_trial(state):
    """Return the next place to look at, or -1 where the search ends."""
    low, high, step = state[_LOW], state[_HIGH], state[_STEP]
    far_is_new = np.isnan(state[_HIGH_SLOPE])
    guess = np.inf
    if state[_CURVATURE] > 0.0:
        guess = step - state[_SLOPE] / state[_CURVATURE]
    if guess >= high and far_is_new:
        guess = high  # is the far end still downhill?
    elif not low < guess < high:
        if far_is_new:
            guess = 0.5 * (low + high)
        else:
            share = state[_LOW_SLOPE] / (state[_LOW_SLOPE] - state[_HIGH_SLOPE])
            guess = low + min(max(share, 0.05), 0.95) * (high - low)
    if not low < guess <= high or (guess == high and not far_is_new):
        return -1.0  # no number left between the two
    return guess


@kernel()
def note_trial(state, step, slope, curvature):
    """Note the slopes at a place; return whether the search goes on."""
    moved = abs(step - state[_STEP])
    state[_STEP], state[_SLOPE], state[_CURVATURE] = step, slope, curvature
    if slope < 0.0:
        state[_LOW], state[_LOW_SLOPE] = step, slope
        if step == state[_LIMIT]:
            return False
    else:
        state[_HIGH], state[_HIGH_SLOPE] = step, slope
    return abs(slope) > state[_TINY] and moved > 1e-16 * step


@kernel()
def found_step(state):
    """Return the step size that a search ended with."""
    if state[_SLOPE] < 0.0 and state[_STEP] == state[_LIMIT]:
        return state[_LIMIT]
    if abs(state[_SLOPE]) <= state[_TINY] or np.isnan(state[_HIGH_SLOPE]):
        return state[_STEP]
    return state[_LOW] if -state[_LOW_SLOPE] < state[_HIGH_SLOPE] else state[_HIGH]


@kernel()
def _unfold_atoms(board, atoms, n_atoms, ptr, idx, val, u):
    """Write u[k] = X[:, i] + sign * X[:, j] of each atom, in phase 0."""
    n_rows = u.shape[1]
    n_blocks = (n_rows + ROW_BLOCK - 1) // ROW_BLOCK
    block = take(board, 0)
    while block < n_blocks:
        first, last = block * ROW_BLOCK, min((block + 1) * ROW_BLOCK, n_rows)
        for k in range(n_atoms):
            i, j, sign = atoms[k]
            unfold_atom(first, last, i, j, float(sign), ptr, idx, val, u[k])
        block = finish(board, 0)
    wait(board, 0, n_blocks)


@kernel()
def _direction_of_chunk(
    first, last, margins, offset, share, factors, anchor_ptr, a, b, c, d, u, direction
):
    """Write how the margins [first, last) change along a move."""
    if share == 0.0:
        direction[first:last] = 0.0
    elif offset.size:
        for t in range(first, last):
            direction[t] = share * (margins[t] - offset[t])
    else:
        for t in range(first, last):
            direction[t] = share * margins[t]
    for k in range(factors.size):
        add_margins_of_chunk(first, last, factors[k], anchor_ptr, a, b, c, d, u[k], direction)


@kernel()
def _next_step(is_first, state, trial, slopes, limit):
    """Note the slopes at a trial.

    Returns the best step size so far, the next trial, and whether there is one.
    """
    if is_first:
        goes_on, size = begin_search(state, slopes[0], slopes[1], limit), 0.0
    else:
        goes_on = note_trial(state, trial, slopes[0], slopes[1])
        size = found_step(state)
    trial = next_trial(state) if goes_on else -1.0
    return size, trial, trial >= 0.0


@kernel(fastmath=REORDERED)
def take_step(
    who, lobby, board, code, margins, offset, share, atoms, factors, ptr, idx, val, anchor_ptr, a,
    b, c, d, omega, omega_step, given_size, limit, u, direction, out, first_sums, second_sums,
    totals, result,
):  # fmt: skip
    """Take the best step along a move, or one of a given size; as ``Problem.step`` on a team.

    The direction is share * (margins - offset), plus the margins of `atoms` times `factors`; the
    offset may be empty. A `given_size` of NaN asks for a line search in [0, limit]. `totals` holds
    the sums over all chunks at each trial and is written once: every thread goes through the same
    search by itself, also one that comes late. `result` gets the step size, the value and the
    largest absolute margin there; a size of 0 leaves it and `out` as they are.
    """
    gather(who, lobby)
    n_chunks = (margins.size + CHUNK - 1) // CHUNK
    _unfold_atoms(board, atoms, factors.size, ptr, idx, val, u)
    state = np.empty(STATE_SIZE)
    size, trial, phase, goes_on = given_size, 0.0, 1, True
    while goes_on:
        chunk = take(board, phase)
        while chunk < n_chunks:
            first, last = chunk * CHUNK, min((chunk + 1) * CHUNK, margins.size)
            if phase == 1:
                _direction_of_chunk(
                    first, last, margins, offset, share, factors, anchor_ptr, a, b, c, d, u,
                    direction,
                )  # fmt: skip
            if np.isnan(given_size):
                first_sums[chunk], second_sums[chunk] = slopes_of_chunk(
                    first, last, code, margins, direction, trial, omega, omega_step
                )
            chunk = finish(board, phase)
        wait(board, phase, n_chunks)
        if not np.isnan(given_size):
            break
        if take(board, phase + 1) == 0:
            totals[phase, 0], totals[phase, 1] = first_sums.sum(), second_sums.sum()
            finish(board, phase + 1)
        wait(board, phase + 1, 1)
        size, trial, goes_on = _next_step(phase == 1, state, trial, totals[phase], limit)
        phase += 2
        goes_on = goes_on and phase <= 2 * MOST_TRIALS + 1
    if size <= 0.0:
        part(who, lobby)
        return
    phase = N_PHASES - 2
    chunk = take(board, phase)
    while chunk < n_chunks:
        first, last = chunk * CHUNK, min((chunk + 1) * CHUNK, margins.size)
        largest = 0.0
        for t in range(first, last):
            out[t] = margins[t] + size * direction[t]
            largest = max(largest, abs(out[t]))
        first_sums[chunk] = loss_of_chunk(first, last, code, out, omega, omega_step)
        second_sums[chunk] = largest
        chunk = finish(board, phase)
    wait(board, phase, n_chunks)
    if take(board, phase + 1) == 0:
        result[0], result[1], result[2] = size, first_sums.sum(), second_sums.max()
        finish(board, phase + 1)
    wait(board, phase + 1, 1)
    part(who, lobby)
