"""Arrays that kernels write between two answers, and their state at rest."""

from contextlib import suppress

import numpy as np

from .comparisons import Comparisons
from .rows import CardRows
from .runtime import CHUNK, BrokenDeviceError
from .segments import WIDTH

#: Numbers that kernels answer with, and blocks that wait for each other.
N_SCALARS = 4


class Workspace:
    """Arrays that the problems of a data set share; kernels run one after the other.

    Parameters
    ----------
    rows : CardRows
    comparisons : Comparisons

    Attributes
    ----------
    u, v : Array of shape (n_rows,)
        Two atoms that are unfolded: x_i ± x_j of every row. Zeros at rest.
    U : Array of shape (n_rows * WIDTH,)
        Features that are unfolded, side by side. Zeros at rest.
    R : Array of shape (n_rows * WIDTH,)
        Σ_b w_ab U_b of every row a.
    slots : Array
        Sums of the chunks of long segments.
    chunk_sums : Array
        Two numbers for each chunk of comparisons, pairs or features.
    ticket : Array
        Counts the blocks that have ended. Zeros at rest.
    link_weights : Array
        One number per pair of rows, in the order of the links.
    link_owner : Pulls or None
        Whose numbers these are.
    block_value, block_entry, block_partner : Array
        The best partners that each block has seen.
    tile_value, tile_place : Array
        The largest numbers of each tile.
    scalars : Array
        What kernels answer with.
    """

    def __init__(self, rows: CardRows, comparisons: Comparisons) -> None:
        device = rows.device
        self.device = device
        self.u = device.zeros(rows.n)
        self.v = device.zeros(rows.n)
        self.U = device.zeros(rows.n * WIDTH)
        self.R = device.empty(rows.n * WIDTH)
        n_slots = max(
            WIDTH * rows.by_feature.n_slots,
            WIDTH * comparisons.links.n_slots,
            comparisons.products.n_slots,
        )
        self.slots = device.empty(max(n_slots, 1))
        n_tiles = -(-rows.n_features // CHUNK)
        n_longest = max(comparisons.n, comparisons.n_pairs, rows.n_features)
        self.chunk_sums = device.empty(2 * -(-n_longest // CHUNK))
        self.ticket = device.zeros(N_SCALARS, np.uint32)
        self.link_weights = device.empty(len(comparisons.link_pair))
        self.link_owner: object = None
        self.block_value = device.empty(WIDTH * device.n_blocks)
        self.block_entry = device.empty(WIDTH * device.n_blocks)
        self.block_partner = device.empty(WIDTH * device.n_blocks, np.int64)
        self.tile_value = device.empty(WIDTH * n_tiles)
        self.tile_place = device.empty(WIDTH * n_tiles, np.int64)
        self.scalars = device.zeros(N_SCALARS)

    def reset(self) -> None:
        """Return to the state at rest, whatever was left undone.

        On a card that has failed nothing can be done, and the error that is under way
        goes on.
        """
        self.link_owner = None
        with suppress(BrokenDeviceError):
            for array in (self.u, self.v, self.U, self.ticket):
                self.device.clear(array)
