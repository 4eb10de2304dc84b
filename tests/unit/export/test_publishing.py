"""A repository has the files of its bundle, and nothing that an engine cached beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dragoman_export.publishing import publish, repository_of

from dragoman.kernel.errors import UsageError
from dragoman.kernel.replacement import KEPT_PREFIX

KEPT = f"{KEPT_PREFIX}1-layout-weights"


def test_cached_codes_are_not_published_and_may_be_replaced(
    random_bundle: Path, tmp_path: Path
) -> None:
    bundle, repository = tmp_path / "bundle", tmp_path / "repository"
    shutil.copytree(random_bundle, bundle)
    (bundle / KEPT).write_bytes(b"codes")
    publish(bundle, repository)
    assert not list(repository.rglob(f"{KEPT_PREFIX}*"))
    served = repository / "translate" / "1" / "bundle"
    (served / KEPT).write_bytes(b"codes")
    publish(bundle, repository, force=True)
    assert not (served / KEPT).exists()
    (served / "notes.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"notes\.txt, which this command did not write"):
        publish(bundle, repository, force=True)


def test_the_repository_of_a_bundle_is_found(random_bundle: Path, tmp_path: Path) -> None:
    publish(random_bundle, tmp_path / "repository")
    published = tmp_path / "repository" / "translate" / "1" / "bundle"
    assert repository_of(published) == tmp_path / "repository"
    assert repository_of(random_bundle) is None
