"""A bundle's identity: equal if the translations are equal, whatever was measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from dragoman.kernel.manifest import Limits, Manifest


def test_the_identity_depends_on_what_affects_translations(random_bundle: Path) -> None:
    manifest = Manifest.load(random_bundle)
    same = [
        dataclasses.replace(manifest, measured={"BLEU": 30.0}),
        dataclasses.replace(manifest, built_with={"dragoman": "9"}),
        Manifest.load(random_bundle),
    ]
    assert {bundle.identity for bundle in same} == {manifest.identity}
    name, sizes = next(iter(manifest.files)), manifest.dimensions
    changes: list[dict[str, Any]] = [
        {"decoder": "ssru"},
        {"norm_epsilon": 1e-6},
        {"position_rates": "inclusive"},
    ]
    others = [
        dataclasses.replace(manifest, files={**manifest.files, name: "0" * 64}),
        dataclasses.replace(manifest, languages=("en", "xx")),
        dataclasses.replace(manifest, limits=Limits(length_penalty=0.7)),
        dataclasses.replace(manifest, activation="gelu"),
        *(
            dataclasses.replace(manifest, dimensions=dataclasses.replace(sizes, **change))
            for change in changes
        ),
    ]
    assert len({bundle.identity for bundle in (manifest, *others)}) == 8


def test_a_field_that_a_later_release_adds_changes_no_identity(random_bundle: Path) -> None:
    manifest = Manifest.load(random_bundle)
    later = dataclasses.make_dataclass(
        "Later",
        [("tuned", bool, dataclasses.field(default=False))],
        bases=(Manifest,),
        frozen=True,
    )
    assert later(**vars(Manifest.load(random_bundle))).identity == manifest.identity
