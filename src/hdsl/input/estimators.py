"""What all estimators have in common: scikit-learn's tags, and fitted attributes as one."""

from typing import Any


def replace_fitted(estimator: Any, learned: Any) -> None:
    """Replace all fitted attributes of an estimator by those of another.

    One assignment does it, so that an interrupt never leaves a half-fitted estimator.
    """
    fitted = {
        name: value for name, value in vars(learned).items() if name.endswith("_")
    }
    others = {
        name: value for name, value in vars(estimator).items() if not name.endswith("_")
    }
    estimator.__dict__ = others | fitted


class TakesSparse:
    """What scikit-learn asks of an estimator of sparse rows; a transformer keeps their dtype."""

    needs_y = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.target_tags.required = self.needs_y
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
