"""Vectors that learn from labels by a supervised contrastive loss: by a map, or all layers.

The loss of Khosla et al., "Supervised contrastive learning" (2020): rows of a class are
pulled together among the others of a batch. torch and sentence-transformers are needed;
a card is used where there is one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from . import encoders
from .settings import Settings

Encode = Callable[[list[str]], np.ndarray]

TEMPERATURE = 0.1
BATCH_SIZE = 64

#: Passes over the labelled texts, by how many there are.
MANY_ROWS = 1000
EPOCHS_OF_MANY = 3
EPOCHS_OF_FEW = 10
LEAST_STEPS = 30
RATE = 5e-5
MAX_TOKENS = 256

#: Steps of the linear map that rows held out choose from, and their share.
MAP_STEPS = (0, 50, 100, 200, 400, 800)
MAP_RATE = 1e-3
HELD_OUT = 0.2


def reason_why_not(settings: Settings) -> str | None:
    """Return why no model can be trained here; None where it can."""
    for package in ("torch", "sentence_transformers"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed."
    if settings.model is None and importlib.util.find_spec(encoders.PACKAGE) is None:
        return "--model names no folder of a sentence model."
    return None


def _device() -> str:
    import torch

    torch.set_num_threads(1)  # cells run side by side
    return "cuda" if torch.cuda.is_available() else "cpu"


def _loss(Z: Any, codes: Any) -> Any:
    """Return the supervised contrastive loss of a batch of vectors at unit length."""
    import torch

    products = Z @ Z.T / TEMPERATURE
    is_self = torch.eye(len(Z), dtype=torch.bool, device=Z.device)
    log_shares = products - products.masked_fill(is_self, -torch.inf).logsumexp(
        dim=1, keepdim=True
    )
    is_same = (codes[:, None] == codes[None]) & ~is_self
    n_same = is_same.sum(dim=1)
    means = (log_shares * is_same).sum(dim=1) / n_same.clamp(min=1)
    return -means[n_same > 0].mean()


def _batches(
    codes: np.ndarray, n_steps: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield batches of rows in which each class has several."""
    classes = [np.flatnonzero(codes == code) for code in np.unique(codes)]
    n_chosen = min(len(classes), BATCH_SIZE // 4)
    for _ in range(n_steps):
        chosen = rng.choice(len(classes), n_chosen, replace=False)
        size = BATCH_SIZE // n_chosen
        batch = [
            rng.permutation(classes[number])[: max(2, size)]
            for number in chosen.tolist()
        ]
        yield np.concatenate(batch)


# --- a linear map ---------------------------------------------------------------------


def linear_map(Z: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a linear map of vectors, learned from labels; rows held out choose its steps."""
    from hdsl.evaluate import knn_error

    _, codes = np.unique(y, return_inverse=True)
    rng = np.random.default_rng(0)
    is_held_out = np.zeros(len(y), dtype=bool)
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        is_held_out[rows[: max(1, round(HELD_OUT * len(rows)))]] = True
    known = ~is_held_out
    errors = {}
    for n_steps, A in _train_map(Z[known], codes[known]):
        mapped = Z @ A
        errors[n_steps] = knn_error(
            None, mapped[known], y[known], mapped[is_held_out], y[is_held_out]
        )
    best = min(errors, key=lambda n_steps: (errors[n_steps], n_steps))
    maps = dict(_train_map(Z, codes))
    return lambda rows: rows @ maps[best]


def _train_map(Z: np.ndarray, codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the map after some numbers of steps; it starts as the identity."""
    import torch

    device = _device()
    torch.manual_seed(0)
    rows = torch.tensor(Z, device=device)
    labels = torch.tensor(codes, device=device)
    A = torch.eye(Z.shape[1], device=device, requires_grad=True)
    optimizer = torch.optim.AdamW([A], lr=MAP_RATE, weight_decay=0.0)
    n_done = 0
    batches = _batches(codes, max(MAP_STEPS), np.random.default_rng(0))
    for n_steps in MAP_STEPS:
        while n_done < n_steps:
            batch = torch.tensor(next(batches), device=device)
            mapped = torch.nn.functional.normalize(rows[batch] @ A, dim=1)
            optimizer.zero_grad()
            _loss(mapped, labels[batch]).backward()
            optimizer.step()
            n_done += 1
        yield n_steps, A.detach().cpu().numpy().copy()


# --- all layers -----------------------------------------------------------------------


def tune(settings: Settings, texts: list[str], y: np.ndarray) -> Encode:
    """Return an encoder: the sentence model, all layers tuned to labels of texts."""
    import torch

    device = _device()
    torch.manual_seed(0)
    model = encoders.sentence_model(settings, device)
    _, codes = np.unique(y, return_inverse=True)
    epochs = EPOCHS_OF_MANY if len(y) > MANY_ROWS else EPOCHS_OF_FEW
    n_steps = max(LEAST_STEPS, epochs * -(-len(y) // BATCH_SIZE))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=n_steps, pct_start=0.1, anneal_strategy="linear"
    )
    model.train()
    for batch in _batches(codes, n_steps, np.random.default_rng(0)):
        Z = _forward(model, [texts[row] for row in batch], device)
        labels = torch.tensor(codes[batch], device=device)
        optimizer.zero_grad()
        _loss(Z, labels).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    return lambda new_texts: _encode(model, new_texts, device)


def _forward(model: Any, texts: list[str], device: str) -> Any:
    """Return the vectors of a batch of texts, at unit length."""
    import torch

    tokens = model.tokenizer(
        texts,
        padding=True,
        truncation=True,
        max_length=MAX_TOKENS,
        return_tensors="pt",
    )
    features = {name: values.to(device) for name, values in tokens.items()}
    with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
        Z = model(features)["sentence_embedding"]
    return torch.nn.functional.normalize(Z.float(), dim=1)


def _encode(model: Any, texts: list[str], device: str) -> np.ndarray:
    """Return the vectors of texts; texts of about the same length are encoded together."""
    import torch

    order = np.argsort([len(text) for text in texts], kind="stable")
    vectors: list[Any] = [None] * len(texts)
    with torch.inference_mode():
        for start in range(0, len(order), 4 * BATCH_SIZE):
            rows = order[start : start + 4 * BATCH_SIZE]
            Z = _forward(model, [texts[row] for row in rows], device).cpu().numpy()
            for row, z in zip(rows.tolist(), Z, strict=True):
                vectors[row] = z
    return np.array(vectors, dtype=np.float32)


def out_of_fold(
    settings: Settings, texts: list[str], y: np.ndarray, seen: np.ndarray, n_folds: int
) -> np.ndarray:
    """Return vectors of texts by models that were tuned on the others.

    Each model has axes of its own: its vectors are turned, as little as needed, to where
    the model that was tuned on all texts, whose vectors are `seen`, has them.
    """
    vectors = np.empty_like(seen)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    for train, held_out in folds.split(np.zeros(len(y)), y):
        train_texts = [texts[row] for row in train]
        encode = tune(settings, train_texts, y[train])
        turn = rotation(encode(train_texts), seen[train])
        vectors[held_out] = encode([texts[row] for row in held_out]) @ turn
    return vectors


def rotation(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the orthogonal matrix R by which the rows of A R are nearest to those of B.

    Directions that no row has stay as they are.

    Examples
    --------
    >>> A = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]] * 9)
    >>> R = rotation(A, A[:, [1, 0, 2]])
    >>> (R.round(3) + 0.0).tolist()  # -0.0 + 0.0 is 0.0
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    U, _, Vt = np.linalg.svd(A.T @ B + np.eye(A.shape[1]))
    return U @ Vt
