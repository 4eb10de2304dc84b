from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from dragoman_export.publishing import publish
from dragoman_serving.launch import repository as repository_module
from dragoman_serving.launch.repository import Repository, shipped_repository
from dragoman_serving.models.loading import Layout

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from tests.conftest import REPOSITORY

_FP16 = 'key: "precision" value: { string_value: "fp16"'


@pytest.fixture
def path(random_bundle: Path, tmp_path: Path) -> Path:
    publish(random_bundle, tmp_path / "repository")
    return tmp_path / "repository"


def test_existing_models_are_loaded(path: Path) -> None:
    assert Repository(path).models == ["translate", "translate_stream", "score"]
    assert Repository(path, ("score", "decoder")).models[2:] == ["score", "decoder"]
    for name in ("translate_stream", "score"):
        shutil.rmtree(path / name)
    assert Repository(path, ("encoder",)).models == ["translate", "encoder"]


def test_the_shipped_model_is_in_the_checkout_or_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert shipped_repository() == Path("model_repository")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no model: install dragoman-model, or name a"):
        shipped_repository()
    (tmp_path / "site" / "dragoman_model").mkdir(parents=True)
    (tmp_path / "site" / "dragoman_model" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert shipped_repository() == tmp_path / "site" / "dragoman_model"


def test_an_unknown_configuration_is_named(path: Path) -> None:
    Repository(path, ("encoder",), "tensorrt")
    for more, config in ((("encoder",), "tensort"), ((), "tensorrt")):
        with pytest.raises(UsageError, match=f"none of the models to load has configs/{config}"):
            Repository(path, more, config)


def test_backends_are_read_from_the_chosen_configurations(path: Path) -> None:
    assert Repository(path).backends == {"dragoman"}
    assert Repository(path, ("encoder",)).backends == {"dragoman", "python"}
    assert Repository(path, ("encoder",), "tensorrt").backends == {"dragoman", "tensorrt"}


def test_a_model_that_names_no_backend_is_refused(path: Path) -> None:
    config = path / "encoder" / "config.pbtxt"
    config.write_text('name: "encoder"')
    with pytest.raises(UsageError, match=r"encoder/config\.pbtxt: names no backend; add"):
        Repository(path, ("encoder",))


def test_a_model_for_another_backend_is_ignored(path: Path) -> None:
    config = path / "translate" / "config.pbtxt"
    config.write_text(config.read_text().replace('backend: "dragoman"', 'backend: "python"'))
    assert Repository(path).layout is None


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('key: "runtime"', 'key: "colour"', "unknown parameter 'colour'"),
        ('string_value: "300"', 'string_value: "0"', "deadline_s is 0"),
        ('name: "translate"', "name: [", "not a Triton configuration"),
        ('key: "precision" value: { string_value: "auto"', _FP16, "no GPU here can be used"),
    ],
)
def test_an_unusable_repository_is_reported_at_once(
    path: Path, before: str, after: str, message: str
) -> None:
    config = path / "translate" / "config.pbtxt"
    assert before in config.read_text()
    config.write_text(config.read_text().replace(before, after))
    with pytest.raises(UsageError) as caught:
        Repository(path)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_another_layout_is_detected_when_the_manifest_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(path)
    bundle = path / "translate" / "1" / "bundle"
    manifest = Manifest.load(bundle)

    def rewrite(time_s: int) -> None:
        manifest.write(bundle)
        os.utime(bundle / "manifest.json", (time_s, time_s))

    rewrite(1)
    assert not repository.layout_has_changed()
    monkeypatch.setattr(repository_module, "choose_layout", lambda *_: Layout("tensorrt", "fp16"))
    assert not repository.layout_has_changed()  # not checked before the manifest changes
    rewrite(2)
    assert repository.layout_has_changed()
    (bundle / "manifest.json").write_text("{")
    assert not repository.layout_has_changed()
    (bundle / "manifest.json").unlink()
    assert not repository.layout_has_changed()
