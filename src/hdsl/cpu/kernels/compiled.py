"""How kernels are compiled."""

from collections.abc import Callable
from typing import Any

from numba import njit

#: Sums that may be taken in another order than written, so that they fill vector
#: registers. The order is fixed when a kernel is compiled: same bits in every run, for
#: any number of threads. No other kernel may call such a one.
REORDERED = {"reassoc", "nsz"}


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile without the GIL, and keep the result on disk where a folder can be written to.

    No C function is made of a kernel, and of one whose name starts with an underscore,
    which only other kernels call, no Python function either, and divisors are not
    compared with zero: that saves time to compile. Short loops take less of it than
    slices, and work arrays that the caller makes less than ``np.zeros`` here.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        options.update(nogil=True, no_cfunc_wrapper=True, error_model="numpy")
        options.setdefault("no_cpython_wrapper", function.__name__.startswith("_"))
        try:
            return njit(cache=True, **options)(function)
        except (
            RuntimeError
        ):  # a read-only install without a home: each process compiles
            return njit(**options)(function)

    return decorate
