"""A model of a path of models: what the fits of `HDSL` and `LocalHDSL` share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import scipy.sparse as sp

from . import checks, path
from .files import checkpoint as checkpoint_module
from .files.checkpoint import Checkpoint
from .fitting import Fit, identity_of_run
from .model import SimilarityModel
from .parameters import check_same_path
from .refit import Refit
from .rows import RowNorm
from .supervision import Supervision


class PathModel(SimilarityModel):
    """A similarity learned along a path; what it is made of is up to the subclass."""

    #: The kind of a fit, and what runs one and gives the model the fitted attributes.
    _kind_of_fit: type[Fit] = Fit
    _learn: Callable[..., Any]

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter that no fit can use."""

    @abstractmethod
    def _supervised(self, rows: sp.csr_array, given: dict[str, Any]) -> Supervision:
        """Return what was given to ``fit``, checked; rows are as they are compared."""

    def _fit(self, X: Any, validation: tuple[Any, ...], goes_on: bool, **given: Any) -> Any:
        """Learn from rows and what is given of them; `goes_on` continues the path so far.

        `validation` is empty where no rows may be held out.
        """
        self._check_parameters()
        earlier = None
        if goes_on and hasattr(self, "atoms_"):
            check_same_path(self)
            earlier = path.result_of(self)
        rng = checks.generator(self.random_state)
        checkpoint = checkpoint_module.begin(self.checkpoint, rng)
        checked = copy(self)  # takes what is found out; self changes at the end, as a whole
        X = checks.check_matrix(checked, X, reset=earlier is None)
        X = checks.as_problem_matrix(X)
        rows = RowNorm.of(self, X, continues=earlier is not None)
        whole = train = self._supervised(rows.apply(X), given)
        held = None
        refit_rng = deepcopy(rng)  # so that the refit is the fit of all rows to the chosen length
        if any(part is not None for part in validation):
            held = train.check_validation(checked, *validation)
            held = replace(held, X=rows.apply(held.X))
        elif self.early_stopping and validation:
            train, held = train.hold_out(self.validation_fraction, rng)
        if checkpoint is not None:
            checkpoint.check(identity_of_run(self, whole, held, earlier))
        run: dict[str, Any] = {"earlier": earlier, "checkpoint": checkpoint}
        first = self._kind_of_fit(self, train, held, rng, **run)
        fit: Fit | Refit = first
        if whole is not train:
            fit = Refit(first, self._kind_of_fit(self, whole, None, refit_rng, **run))
        checked.norm_, checked.columns_ = rows.norm, rows.columns
        self._learn(fit, checked)
        self._take_checkpoint(checkpoint)
        return self

    def _take_checkpoint(self, checkpoint: Checkpoint | None) -> None:
        """Remember the file of a run that has ended: it is deleted when the model is saved."""
        self.__dict__.pop("checkpoint_file_", None)
        if checkpoint is not None and self.status_ != "interrupted":
            self.checkpoint_file_ = checkpoint.file

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("checkpoint_file_", None)  # the file is this object's to delete, not its copies'
        return state
