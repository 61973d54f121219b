"""The source of the kernels, and what each kernel takes.

Kernels are C++ functions in ``kernels/*.cu``. Python calls them by the names of their
parameters, which are read from there.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

#: The files of the kernels, in the order in which the compiler sees them.
FILES = (
    "base.cu",
    "comparisons.cu",
    "gather.cu",
    "climb.cu",
    "setup.cu",
    "atoms.cu",
    "search.cu",
)

#: ``KERNEL name(parameters)``.
_KERNEL = re.compile(r"^KERNEL (\w+)\(([^)]*)\)", re.M)

#: ``VARIANTS(name, (parameters), …)``: the kernels `name` and `name_plain`.
_VARIANTS = re.compile(r"^VARIANTS\(\s*(\w+),\s*\(([^)]*)\)", re.M)

#: A parameter as ``const double* margins``.
_PARAMETER = re.compile(r"(?:const )?(\w+\*?) (\w+)")


class Parameter(NamedTuple):
    """A parameter of a kernel.

    Attributes
    ----------
    type : str
        "i64" or "double"; of an array its items, as "int*".
    name : str
    """

    type: str
    name: str


@cache
def source() -> str:
    """Return the source of all kernels."""
    folder = resources.files(__package__) / "kernels"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in FILES)


@cache
def signatures() -> dict[str, tuple[Parameter, ...]]:
    """Return the parameters of every kernel."""
    all_parameters = {}
    for name, text in _KERNEL.findall(source()):
        all_parameters[name] = _parsed(text)
    for name, text in _VARIANTS.findall(source()):
        all_parameters[name] = _parsed(text)
        all_parameters[f"{name}_plain"] = _parsed(text)
    return all_parameters


def _parsed(text: str) -> tuple[Parameter, ...]:
    """Return the parameters that a list in C++ names."""
    return tuple([Parameter(*match) for match in _PARAMETER.findall(text)])


def parameters(kernel: str) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel, in their order.

    Examples
    --------
    >>> for parameter in parameters("count_features"):
    ...     print(parameter.type, parameter.name)
    i64 n
    int* idx
    int* counts
    """
    return signatures()[kernel]


def in_order(kernel: str, arguments: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of a kernel in the order of its parameters.

    Examples
    --------
    >>> in_order("count_features", {"counts": "zeros", "idx": "columns", "n": 3})
    [3, 'columns', 'zeros']
    >>> in_order("count_features", {"idx": "columns", "n": 3, "out": "zeros"})
    Traceback (most recent call last):
    ...
    TypeError: The kernel count_features takes n, idx, counts. Got idx, n, out.
    """
    names = [parameter.name for parameter in parameters(kernel)]
    if arguments.keys() != set(names):
        raise TypeError(
            f"The kernel {kernel} takes {', '.join(names)}. Got {', '.join(arguments)}."
        )
    return [arguments[name] for name in names]
