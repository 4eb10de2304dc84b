"""Versions of models that replace each other while they are served, some of them broken."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dragoman.kernel.manifest import FILE_NAME, Manifest, digests
from tests.campaigns.background import Background
from tests.campaigns.random_models import RandomModel
from tests.served_bundles import swap

_GOOD, _GOOD_EACH = "good", 4
"""Good versions come as often as all kinds of broken ones together."""
_TAKEN_S = 120.0
"""Time within which a good version must take over, whatever else is being loaded."""
_REFUSED_S = 30.0
_LOOK_S = 0.1


def _truncated(bundle: Path) -> None:
    """Truncate the weights, like a copy that stopped half way."""
    weights = bundle / Manifest.read(bundle).weights
    data = weights.read_bytes()
    weights.unlink()  # it is a link to the good version's
    weights.write_bytes(data[: len(data) // 2])


def _misstated(bundle: Path) -> None:
    """Truncate the weights, with a matching manifest."""
    _truncated(bundle)
    manifest = Manifest.read(bundle)
    files = {**manifest.files, **digests(bundle, [manifest.weights])}
    _rewrite(bundle, replace(manifest, files=files))


def _without_vocabulary(bundle: Path) -> None:
    (bundle / Manifest.read(bundle).tokenizer).unlink()


def _unreadable(bundle: Path) -> None:
    (bundle / FILE_NAME).unlink()
    (bundle / FILE_NAME).write_text("{", encoding="utf-8")


def _rewrite(bundle: Path, manifest: Manifest) -> None:
    (bundle / FILE_NAME).unlink()
    manifest.write(bundle)


_DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated weights": _truncated,
    "weights of other sizes than the manifest's": _misstated,
    "no vocabulary": _without_vocabulary,
    "an unreadable manifest": _unreadable,
}


class Replacements(Background):
    """Replaces one model after the other, until its context is left or the count is reached.

    Attributes:
        done: number of replacements, by kind.
        late: good versions that did not take over in time, broken ones that were not refused.
    """

    def __init__(
        self,
        models: Sequence[RandomModel],
        served: Callable[[], dict[str, str]],
        refused: Callable[[], int],
        count: int,
        seed: int,
    ) -> None:
        """Prepare; entering the context begins.

        Args:
            models: with two versions each.
            served: returns the identities of the served bundles, by name.
            refused: returns how many versions the server has refused so far.
            count: number of replacements.
            seed: of the random choices.
        """
        super().__init__()
        self.done: Counter[str] = Counter()
        self.late: list[str] = []
        self._models, self._served, self._refused = models, served, refused
        self._count, self._chance = count, random.Random(seed)
        self._current = {model.link: 0 for model in models}

    def _run(self) -> None:
        kinds = [*_DAMAGES, *[_GOOD] * _GOOD_EACH]
        for number in range(self._count):
            if self._stopping.is_set():
                return
            model = self._chance.choice(self._models)
            kind = self._chance.choice(kinds)
            if kind == _GOOD:
                self._replace(model)
            else:
                self._damage(model, kind, number)
            self.done[kind] += 1

    def _replace(self, model: RandomModel) -> None:
        """Replace a model by its other version."""
        other = 1 - self._current[model.link]
        identity = Manifest.read(model.versions[other]).identity
        swap(model.link, model.versions[other])
        self._current[model.link] = other
        if not self._wait(lambda: self._served().get(model.link.name) == identity, _TAKEN_S):
            self.late.append(f"{model.link.name}: a good version did not take over")

    def _damage(self, model: RandomModel, kind: str, number: int) -> None:
        """Offer a broken version, and put back the one that is served."""
        current = model.versions[self._current[model.link]]
        broken = model.link.parent.parent / f"broken.{number}"
        shutil.copytree(
            model.versions[1 - self._current[model.link]], broken, copy_function=os.link
        )
        _DAMAGES[kind](broken)
        refused = self._refused()
        swap(model.link, broken)
        if not self._wait(lambda: self._refused() > refused, _REFUSED_S):
            self.late.append(f"{model.link.name}: {kind} was not refused")
        swap(model.link, current)
        shutil.rmtree(broken)

    def _wait(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition; returns whether it became true."""
        end_s = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end_s:
                return False
            time.sleep(_LOOK_S)
        return True
