"""Learn a similarity for sparse, very high-dimensional data, one pair of features at a time."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .class_scores import ClassScores
    from .hdsl import HDSL
    from .linking import Linker
    from .neighbors import SimilarityKNeighborsClassifier
    from .rows import Rows
    from .saving import load, save
    from .settings import Mining, Solver
    from .text import learn

    __version__: str

__all__ = [
    "HDSL",
    "ClassScores",
    "Linker",
    "Mining",
    "Rows",
    "SimilarityKNeighborsClassifier",
    "Solver",
    "__version__",
    "learn",
    "load",
    "save",
]

# Loaded on first use: importing scikit-learn takes seconds, and `hdsl --help` does not
# need it.
_HOMES = {
    "ClassScores": "class_scores",
    "HDSL": "hdsl",
    "Linker": "linking",
    "Mining": "settings",
    "Rows": "rows",
    "SimilarityKNeighborsClassifier": "neighbors",
    "Solver": "settings",
    "learn": "text",
    "load": "saving",
    "save": "saving",
}
#: Left the package; each works in the repository, in a module of `reproduce`.
_MOVED = {
    "LocalHDSL": "reproduce.local_hdsl",
    "SimilarityClassifier": "reproduce.landmarks",
    "baselines": "reproduce.baselines",
}
_SUBMODULES = (
    "dask",
    "datasets",
    "evaluate",
    "explain",
    "linking",
    "neighbors",
    "plots",
    "readers",
    "report",
    "search",
    "serving",
    "similarity",
    "text",
    "triplets",
)


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version(__name__)
        except metadata.PackageNotFoundError:  # a source tree that was never installed
            return "0+unknown"
    if name in _MOVED:
        raise AttributeError(
            f"hdsl.{name} is no longer in the package: the repository has it in "
            f"{_MOVED[name]}."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
