"""A fitted model to a file and back."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .class_scores import ClassScores
from .files import container
from .files.container import damaged
from .files.model import CLASS_SCORES, CLASSIFIER, model_from_arrays, write_model
from .parameters import NOT_SAVED
from .solver.snapshot import nested, part_of
from .solver.trace import NO_CORRECTIONS

if TYPE_CHECKING:
    from .classification import SimilarityClassifier
    from .hdsl import HDSL
    from .local import LocalHDSL

#: Keys of "extra" that hold the regions of a LocalHDSL start with this.
REGIONS = "regions"


#: The format of files that hold a classifier.
CLASSIFIER_FORMAT = 3


def save(
    model: HDSL | LocalHDSL | SimilarityClassifier | Pipeline,
    path: Any,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write a fitted model, or a pipeline of `ClassScores` and a model, to one file.

    The file is as ``HDSL.save`` writes it, and the checkpoint of the run is deleted. Of the class
    scores it holds the weights of the classifier, which must be linear, such as ``LinearSVC`` or
    ``LogisticRegression``.

    Parameters
    ----------
    model : HDSL, LocalHDSL, SimilarityClassifier or Pipeline
        Fitted. A pipeline has exactly two steps, a `ClassScores` and an `HDSL` or `LocalHDSL`.
        The regions of a `LocalHDSL` must have centers, as those of k-means and of an array have.
    path : str or path-like
        By convention ``*.hdsl``.
    extra : dict, default=None
        More arrays of numbers, vectors of text, and plain values to write. No key may start with
        "class_scores" or "regions". A classifier takes none.

    Raises
    ------
    ValueError
        The pipeline has other steps, its classifier is not linear, or the regions have no centers.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from hdsl import HDSL, ClassScores, load, save
    >>> X, y = np.eye(6), [0, 0, 0, 1, 1, 1]
    >>> model = make_pipeline(ClassScores(cv=3), HDSL(n_targets=1, n_impostors=1)).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.hdsl")
    ...     save(model, path)
    ...     bool((load(path).transform(X) == model.transform(X)).all())
    True
    """
    from .classification import SimilarityClassifier

    extra = dict(extra or {})
    if isinstance(model, SimilarityClassifier):
        if extra:
            raise ValueError("The file of a SimilarityClassifier has no place for extra.")
        _save_classifier(model, path)
        return
    for word in (CLASS_SCORES, REGIONS):
        reserved = [key for key in extra if key.startswith(word)]
        if reserved:
            raise ValueError(f"extra has the key {reserved[0]!r}, but {word!r} is reserved.")
    scores, learned = _parts(model)
    if hasattr(learned, "regions"):
        check_is_fitted(learned, "local_atoms_")
        extra |= nested(**{REGIONS: learned.to_arrays()})
    if scores is not None:
        extra[CLASS_SCORES] = {"steps": [name for name, _ in model.steps]}
        extra |= nested(**{CLASS_SCORES: scores.to_arrays()})
    write_model(path, {**_state(learned), "extra": extra})
    checkpoint = learned.__dict__.pop("checkpoint_file_", None)
    if checkpoint is not None:
        checkpoint.remove()


def _save_classifier(classifier: SimilarityClassifier, path: Any) -> None:
    arrays, content = classifier.to_arrays()
    versions = {**_versions(), "format": CLASSIFIER_FORMAT}
    header = {CLASSIFIER: content, "versions": versions}
    container.write(path, arrays, header, version=CLASSIFIER_FORMAT)


def _parts(model: Any) -> tuple[ClassScores | None, Any]:
    """Return the class scores, if there are any, and the model after them."""
    from .hdsl import HDSL
    from .local import LocalHDSL

    if isinstance(model, HDSL | LocalHDSL):
        return None, model
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    if [type(step) for step in steps] not in ([ClassScores, HDSL], [ClassScores, LocalHDSL]):
        names = ", ".join(type(step).__name__ for step in steps)
        raise ValueError(
            "A model file holds an HDSL, a LocalHDSL, a SimilarityClassifier, or a pipeline of "
            f"ClassScores and one of the first two. Got {names}."
        )
    return steps[0], steps[1]


def _state(model: Any) -> dict[str, Any]:
    """Return all that a model file holds of a fitted model."""
    check_is_fitted(model, "atoms_")
    state = {
        name: getattr(model, name + "_")
        for name in (
            "atoms", "weights", "scale", "prior", "objective", "gap", "gap_is_exact", "status",
            "n_iter", "n_triplets", "n_features_in", "trace", "corrections", "norm", "columns",
        )
    }  # fmt: skip
    params = model.get_params(deep=False)
    if "regions" in params and not isinstance(params["regions"], str):
        params["regions"] = "kmeans"  # the centers are in the file; an array belongs to its rows
    state["params"] = {k: v for k, v in params.items() if k not in NOT_SAVED}
    state["trace"] = model.trace_.copy()
    state["trace"]["seconds"] = np.nan
    state["feature_names_in"] = getattr(model, "feature_names_in_", None)
    state["versions"] = _versions()
    return state


def _versions() -> dict[str, str]:
    return {
        "hdsl": version("hdsl"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def load(path: Any) -> HDSL | LocalHDSL | SimilarityClassifier | Pipeline:
    """Return the model that its ``save`` or `hdsl.save` wrote; no code in the file is ever run.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    HDSL, LocalHDSL, SimilarityClassifier or Pipeline
        A pipeline if one was saved. Its ``classifier_`` then gives the same scores, but is a plain
        linear function and not the class it was; the parameter `classifier` is None.

    Raises
    ------
    ValueError
        The file is damaged, of another program, or of a newer format.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from hdsl import HDSL, load
    >>> model = HDSL(scale=1.0, prior=0.0).fit([[1, 0], [0, 1]], triplets=[[0, 0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.hdsl")
    ...     model.save(path)
    ...     load(path).atoms_.tolist()
    [[0, 1, -1]]
    """
    arrays, header = container.read(path)
    if CLASSIFIER in header:
        return _classifier(path, arrays, header[CLASSIFIER])
    state = model_from_arrays(arrays, header, path=path)
    extra = state.pop("extra")
    regions = part_of(extra, REGIONS)
    try:
        model = _local_model(state, regions) if regions else _model(state)
    except ValueError as error:
        raise ValueError(f"Cannot load {os.fsdecode(path)!r}: {damaged(str(error))}") from None
    if CLASS_SCORES not in extra and not part_of(extra, CLASS_SCORES):
        return model
    try:
        return _pipeline(extra, model)
    except ValueError as error:
        raise ValueError(
            f"Cannot load {os.fsdecode(path)!r}: {damaged(f'the class scores: {error}')}"
        ) from None


def _classifier(path: Any, arrays: dict[str, Any], header: Any) -> SimilarityClassifier:
    from .classification import SimilarityClassifier

    try:
        return SimilarityClassifier.from_arrays(arrays, header if isinstance(header, dict) else {})
    except ValueError as error:
        what = str(error).removesuffix(".")
        raise ValueError(f"Cannot load {os.fsdecode(path)!r}: {damaged(what)}") from None


def _local_model(state: dict[str, Any], regions: dict[str, Any]) -> LocalHDSL:
    """Return the fitted model of a state and of the arrays of its regions."""
    from .local import LocalHDSL

    model = _model(state, LocalHDSL)
    model.take_arrays(regions)
    return model


def _model(state: dict[str, Any], kind: Any = None) -> Any:
    """Return the fitted model of a state, an HDSL unless another kind is given."""
    from .hdsl import HDSL

    kind = kind or HDSL
    known = kind().get_params()
    left_out = state.pop("params_left_out")
    params = state.pop("params").items()
    given = known.keys() - NOT_SAVED - set(left_out)  # a file does not configure the machine
    model = kind(**{name: v for name, v in params if name in given})
    state.pop("versions")
    state.setdefault("corrections", NO_CORRECTIONS.copy())
    for name, value in state.items():
        if value is not None or name in ("norm", "columns"):
            setattr(model, name + "_", value)
    if "validation_score" in (model.trace_.dtype.names or ()):
        score = float(model.trace_["validation_score"][model.n_iter_])
        if not np.isnan(score):
            model.validation_score_ = score
    return model


def _pipeline(extra: dict[str, Any], model: Any) -> Pipeline:
    """Return the class scores in a file and the model after them; raise ValueError if damaged."""
    layout = extra.get(CLASS_SCORES)
    names = layout.get("steps") if isinstance(layout, dict) else None
    names = names if isinstance(names, list) else []
    good = all(isinstance(name, str) and "__" not in name for name in names)
    if not good or len(names) != 2 or names[0] == names[1]:
        raise ValueError("the names of the two steps are missing")
    scores = ClassScores.from_arrays(part_of(extra, CLASS_SCORES))
    n_columns = scores.n_features_in_ + len(scores.classes_)
    if n_columns != model.n_features_in_:
        raise ValueError(f"they make {n_columns} columns, but the model has {model.n_features_in_}")
    return Pipeline(list(zip(names, (scores, model), strict=True)))
