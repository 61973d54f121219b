"""About the program itself: ``hdsl info``, ``bench`` and ``reproduce``."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import memory
from .options import Json, MatlabNames, Triplets, ZeroBased, command, option
from .shell import say, show_json, show_table

if TYPE_CHECKING:
    import numpy as np

    from ..classification import SimilarityClassifier


@command()
def info(
    data: Annotated[
        Path | None, typer.Argument(help="A model file, or rows as `hdsl fit` reads them.")
    ] = None,
    triplets: Triplets = None,
    per_row: Annotated[int, option("Triplets per row, where no file is given.")] = 15,
    zero_based: ZeroBased = False,
    matlab_names: MatlabNames = "fea,gnd",
    as_json: Json = False,
) -> None:
    """Show versions and the machine, a model, or the memory that a fit needs.

    For example:

      hdsl info model.hdsl

      hdsl info X.npz --triplets T.npy
    """
    from importlib.metadata import version

    import joblib

    free = memory.available()
    facts: dict[str, object] = {
        "hdsl": version("hdsl"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")},
        "cores": joblib.cpu_count(),
        "free memory": memory.format_bytes(free) if free is not None else "unknown",
        "gpu": _gpu(),
    }
    if data is not None and data.suffix == ".hdsl":
        facts |= _model_facts(data)
    elif data is not None:
        facts |= _fit_facts(data, triplets, per_row, zero_based, matlab_names)
    if as_json:
        show_json(facts)
    else:
        show_table([(name, str(value)) for name, value in facts.items()])


def _gpu() -> str:
    """Return the card that ``device="cuda"`` takes, or why there is none."""
    from ..cuda.runtime import DeviceError, get_device

    try:
        card = get_device()
    except DeviceError as error:
        return f"none ({error})"
    return f"{card.name}, {memory.format_bytes(card.memory()['free'])} free"


def _model_facts(path: Path) -> dict[str, object]:
    import numpy as np

    from ..classification import SimilarityClassifier
    from ..saving import load
    from ..text import load_collection
    from .inputs import check_input
    from .scored import ScoredModel

    check_input(path)
    saved = load(path)
    if isinstance(saved, SimilarityClassifier):
        return _classifier_facts(saved)
    scored, collection = ScoredModel.from_saved(saved), load_collection(path)
    model = scored.model
    return {
        "features": scored.n_features,
        "class scores": scored.n_scores,
        "pairs": len(model.weights_),
        "scale": float(f"{model.scale_:.6g}"),
        "prior": float(f"{model.prior_:.6g}"),
        "triplets": model.n_triplets_,
        "regions": getattr(model, "n_regions_", 0),
        "pairs of regions": sum(map(len, getattr(model, "local_weights_", ()))),
        "iterations": model.n_iter_,
        "status": model.status_,
        "words": collection.vectorizer is not None,
        "documents": collection.n_rows,
        "labels": 0 if collection.labels is None else len(np.unique(collection.labels)),
    }


def _classifier_facts(classifier: SimilarityClassifier) -> dict[str, object]:
    similarity = classifier.similarity_
    regions = getattr(similarity, "regions", None)
    return {
        "classifier": "SimilarityClassifier",
        "features": classifier.n_features_in_,
        "classes": len(classifier.classes_),
        "landmarks": len(classifier.landmarks_),
        "weights": int((classifier.coef_ != 0).sum()),
        "pairs": 0 if similarity is None else similarity.components.shape[0],
        "regions": 0 if regions is None else regions.n_regions,
        "loss": classifier.loss,
        "C": float(f"{classifier.C_:.6g}"),
        "iterations": classifier.n_iter_,
    }


def _fit_facts(
    path: Path, triplets: Path | None, per_row: int, zero_based: bool, matlab_names: str
) -> dict[str, object]:
    from ..cpu import memory as cpu_memory
    from . import inputs

    source = inputs.Source(triplets=triplets, zero_based=zero_based, matlab_names=matlab_names)
    data = inputs.read_data(path, source)
    X, planned, free = data.X, data.comparisons, memory.available()
    if planned is None:
        planned = _example_triplets(X.shape[0], per_row)
    need = cpu_memory.estimate(X, planned)
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "values": X.nnz,
        "triplets": len(planned),
        "a fit takes": str(need),
        "fits": free is None or need.total <= free,
    }


def _example_triplets(n_rows: int, per_row: int) -> np.ndarray:
    """Return triplets of each row with the rows after it, to estimate by."""
    import numpy as np

    anchor = np.repeat(np.arange(n_rows), per_row)
    shift = np.tile(np.arange(per_row), n_rows)
    return np.column_stack(
        [anchor, (anchor + 1 + shift // 5) % n_rows, (anchor + 4 + shift % 5) % n_rows]
    )


@command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(ctx: typer.Context) -> None:
    """Run the benchmarks of the repository.

    Arguments are passed on.

    For example:

      hdsl bench --list

      hdsl bench kernels --toy
    """
    places = (Path.cwd(), Path(__file__).resolve().parents[3])
    folder = next((p for p in places if (p / "benchmarks" / "__main__.py").is_file()), None)
    if folder is None:
        raise ValueError(
            "The benchmarks are in the repository, not in the installed package: run `hdsl bench` "
            "in a clone of it."
        )
    ended = subprocess.run([sys.executable, "-m", "benchmarks", *ctx.args], cwd=folder, check=False)
    raise typer.Exit(ended.returncode)


@command()
def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="recovery, links, knn, svm, features, sparsity, dimension, complexity: of the "
            "paper. judgements, quality, rivals, defaults, classification, cisi, phase, local: "
            "beyond it. all: all.",
        ),
    ],
    quick: Annotated[
        bool, option("A smaller version of each, of less than a minute.", "--quick")
    ] = False,
    data: Annotated[Path | None, option("Folder of the real data sets.")] = None,
    out: Annotated[
        Path | None,
        option("Folder of the results. Default: results, or results/quick with --quick."),
    ] = None,
    jobs: Annotated[int, option("Processes.")] = 2,
) -> None:
    """Run the experiments of the paper, print their tables and write their pages.

    Finished parts are not computed again. An experiment whose data are missing is left out.

    For example:

      hdsl reproduce recovery --quick

      hdsl reproduce knn svm --data FOLDER
    """
    from reproduce import reproduce

    settings = reproduce.Settings(out or reproduce.default_folder(quick), data, jobs, quick)
    raise typer.Exit(reproduce.reproduce_all(names, settings, say))
