"""How kernels are compiled, and the sizes they share."""

from typing import Any

from numba import njit


def kernel(**options: Any) -> Any:
    """Compile without the GIL, and cache the result on disk where a folder can be written to.

    That is beside the module, else in the user's cache. Where there is neither (a read-only install
    without a home), every process compiles for itself.
    """

    def decorate(function: Any) -> Any:
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # no folder for the cache
            return njit(nogil=True, **options)(function)

    return decorate


#: Sums that may be taken in another order than written, so that they fill vector registers. The
#: order is fixed when a kernel is compiled: same bits in every run, for any number of threads. No
#: other kernel may call such a one: it would be compiled once more within the caller, perhaps in
#: another order, and which of the two runs would depend on which a process loaded first.
REORDERED = {"reassoc", "nsz"}

#: Comparisons summed one after the other; longer sums are made of such partial sums.
CHUNK = 4096

#: Rows of S computed side by side in one pass over X: one cache line of float64.
WIDTH = 8

#: Rows whose numbers are written in one task.
ROW_BLOCK = 256

#: Common features whose sums are added up in one task.
COMMON_BLOCK = 64
