"""How kernels are compiled, and the sizes they share."""

from collections.abc import Callable
from typing import Any

from numba import njit

#: Sums that may be taken in another order than written, so that they fill vector registers. The
#: order is fixed when a kernel is compiled: same bits in every run, for any number of threads. No
#: other kernel may call such a one.
REORDERED = {"reassoc", "nsz"}

#: Comparisons summed one after the other; longer sums are made of such partial sums.
CHUNK = 4096

#: Rows of S computed side by side in one pass over X: one cache line of float64.
WIDTH = 8


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile without the GIL, and keep the result on disk where a folder can be written to.

    No C function is made of a kernel, and of one whose name starts with an underscore, which only
    other kernels call, no Python function either, and divisors are not compared with zero: that
    saves time to compile. Short loops take less of it than slices, and work arrays that the caller
    makes less than ``np.zeros`` here.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        options.update(no_cfunc_wrapper=True, error_model="numpy")
        options["no_cpython_wrapper"] = function.__name__.startswith("_")
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # a read-only install without a home: every process compiles
            return njit(nogil=True, **options)(function)

    return decorate
