"""How kernels are compiled, and the sizes they share."""

from contextlib import suppress
from typing import Any

from numba.core import config
from numba.core.registry import CPUDispatcher

from .cache import KernelCache

#: Whether kernels run as plain Python: then on one thread, since counters are plain numbers.
JIT_IS_OFF = bool(getattr(config, "DISABLE_JIT", 0))


class _Kernel(CPUDispatcher):
    """What ``numba.njit`` makes of a function, with a cache of ours."""

    def enable_caching(self) -> None:
        self._cache = KernelCache(self.py_func)


def kernel(**options: Any) -> Any:
    """Compile without the GIL, and keep the result on disk where a folder can be written to.

    That is beside the module, else in the user's cache. Where there is neither (a read-only install
    without a home), every process compiles for itself.
    """

    def decorate(function: Any) -> Any:
        if JIT_IS_OFF:
            return function
        compiled = _Kernel(function, targetoptions={"nopython": True, "nogil": True, **options})
        with suppress(RuntimeError, OSError):  # no folder, or sources that cannot be read
            compiled.enable_caching()
        return compiled

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
