"""A repository holds the files of its bundle, and nothing that an engine kept beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dragoman_export.publishing import lay_out, publish
from dragoman_serving.launch.repository import Repository

from dragoman.kernel.errors import UsageError
from dragoman.kernel.replacement import KEPT_PREFIX

KEPT = f"{KEPT_PREFIX}1-layout-weights"


def test_kept_codes_are_not_published_and_may_be_replaced(
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


def test_a_bundle_is_served_from_where_it_lies(random_bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    made = lay_out(random_bundle, tmp_path / "scratch")
    assert made == tmp_path / "scratch"
    bundle = made / "translate" / "1" / "bundle"
    assert bundle.resolve() == random_bundle.resolve()
    assert Repository(made).models == ["translate", "translate_stream", "score"]
    publish(random_bundle, tmp_path / "repository")
    published = tmp_path / "repository" / "translate" / "1" / "bundle"
    assert lay_out(published, tmp_path / "unused") == tmp_path / "repository"
    assert not (tmp_path / "unused").exists()
