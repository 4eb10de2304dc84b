"""Several bundles in one engine's process: routes, memory, replacement."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from dragoman_options.frames import Answer, ErrorCode, Failure
from dragoman_options.table import SCORE, STREAM
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.launch.engine_process import EngineProcess
from dragoman_serving.service import bundles as bundles_module
from dragoman_serving.service.bundles import Bundles, resident_bytes
from dragoman_serving.service.engine_socket import EngineSocket
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.manifest import FILE_NAME, Manifest
from tests.conftest import REPOSITORY
from tests.served_bundles import bound_for, swap
from tests.small_bundles import limit_directions, make_bundles
from tests.unit.serving.service.triton_side import (
    Connect,
    Triton,
    hello,
    info_of,
    pairs,
    ready,
    request,
    served,
    texts_of,
)

DIRECTIONS = {"first": "en-de de-en", "french": "en-fr fr-en", "second": "en-de"}
TEXTS = ["red blue green", "white grey", "pink brown black red"]
WAIT_S = 200
LOOK_S = 0.02
MB = 1 << 20


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_bundles(tmp_path_factory.mktemp("several"), DIRECTIONS)


def serving(folders: Sequence[Path], **more: Any) -> contextlib.AbstractContextManager[Connect]:
    return served(ModelsToServe(tuple(map(str, folders)), **more))


@pytest.fixture(scope="module")
def connect(folders: list[Path]) -> Iterator[Connect]:
    with serving(folders) as connecting:
        yield connecting


@pytest.fixture(scope="module")
def translate(connect: Connect) -> Triton:
    return ready(connect)


def alone(folder: Path, texts: Sequence[str], **options: Any) -> list[str]:
    """The answers of a bundle that is served alone."""
    translator = Translator(folder)
    translated = [translation.text for translation in translator.translate(texts, options)]
    translator.close()
    return translated


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "first"),
        ({"source_language": "en", "target_language": "de"}, "first"),
        ({"source_language": "de"}, "first"),
        ({"target_language": "FR"}, "french"),
        ({"source_language": "fr", "beam_width": 2}, "french"),
        ({"model": "second"}, "second"),
        ({"model": "first", "target_language": "en"}, "first"),
    ],
)
def test_a_request_is_answered_as_by_its_bundle_served_alone(
    translate: Triton, folders: list[Path], options: dict[str, Any], name: str
) -> None:
    translate.send(request(1, TEXTS, **options))
    (folder,) = (folder for folder in folders if folder.name == name)
    assert texts_of(translate.answer()) == alone(folder, TEXTS, **options)


def test_the_bundles_differ(folders: list[Path]) -> None:
    """The other tests here are meaningful only if the bundles differ."""
    assert alone(folders[0], TEXTS) != alone(folders[2], TEXTS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"source_language": "de", "target_language": "fr"},
            "no model translates from 'de' into 'fr': there are en-de, de-en, en-fr, fr-en",
        ),
        ({"model": "third"}, "model is 'third': there are first, french, second"),
        ({"model": 7}, "model is 7: give text"),
        ({"source_language": 7}, "source_language is 7: give text"),
        (
            {"model": "second", "target_language": "fr"},
            "target_language 'fr' is unknown; known: en, de",
        ),
    ],
)
def test_unsupported_directions_are_refused(
    translate: Triton, options: dict[str, Any], message: str
) -> None:
    translate.send(request(1, TEXTS, **options))
    failure = translate.failure()
    assert (failure.code, failure.message) == (ErrorCode.INVALID_ARG, message)


@pytest.mark.usefixtures("translate")
def test_streams_and_scores_are_routed_too(folders: list[Path], connect: Connect) -> None:
    stream, score = ready(connect, STREAM), ready(connect, SCORE)
    for options in ({"target_language": "fr"}, {"model": "second"}):
        name = options.get("model", "french")
        (folder,) = (folder for folder in folders if folder.name == name)
        stream.send(request(1, TEXTS[:1], **options))
        while not (answer := stream.answer()).last:
            pass
        assert texts_of(answer) == alone(folder, TEXTS[:1], repair=False, **options)
        score.send(pairs(2, TEXTS[:1], ["red"], **options))
        answer = score.answer()
        assert isinstance(answer, Answer)
        translator = Translator(folder)
        (assessment,) = translator.score(TEXTS[:1], ["red"], options).future.result()
        translator.close()
        (scores,) = (tensor.values for tensor in answer.outputs if tensor.name == "confidences")
        assert scores == pytest.approx([assessment.confidence])
    for model in (stream, score):
        model.send(pairs(3, ["a"], ["b"], model="third"))
        failure = model.failure()
        assert "model is 'third'" in failure.message


def test_info_lists_all_bundles(connect: Connect, folders: list[Path]) -> None:
    info = info_of(connect)
    assert [bundle["name"] for bundle in info["bundles"]] == list(DIRECTIONS)
    assert [bundle["identity"] for bundle in info["bundles"]] == [
        Manifest.read(folder).identity for folder in folders
    ]
    assert info["bundles"][2]["directions"] == [["en", "de"]]
    assert info["bundles"][2]["runtime"] == "native"
    assert info["languages"] == ["en", "de", "fr"]
    assert info["directions"] == [["en", "de"], ["de", "en"], ["en", "fr"], ["fr", "en"]]
    assert set(info["loaded"]) >= {"first"}


def test_only_the_first_and_preloaded_bundles_are_loaded_at_the_start(folders: list[Path]) -> None:
    for preload, loaded in (((), ["first"]), (("second", "fr-en"), list(DIRECTIONS))):
        with serving(folders, preload=preload) as connect:
            ready(connect)
            assert info_of(connect)["loaded"] == loaded
    with serving(folders, preload=("fr-de",)) as connect:
        why = connect().introduce(hello())
        assert why == (
            "--preload fr-de: neither a model nor a direction; "
            "known: first, french, second, en-de, de-en, en-fr, fr-en"
        )


def test_a_broken_bundle_fails_only_its_own_requests(folders: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in folders]
    for broken in copies[:2]:
        (broken / "model.safetensors").write_bytes(b"")
    with serving(copies) as connect:
        model = ready(connect)
        model.send(request(1, TEXTS, target_language="fr"))
        failure = model.failure()
        assert failure.code is ErrorCode.UNAVAILABLE
        assert failure.message.startswith("UNAVAILABLE: model 'french': it cannot be loaded: ")
        assert "SHA-256 differs" in failure.message
        # Another one has the direction of the first.
        model.send(request(2, TEXTS, source_language="en", target_language="de"))
        assert texts_of(model.answer()) == alone(folders[2], TEXTS)
    with serving(copies[:1]) as connect:
        why = connect().introduce(hello())
        assert "SHA-256 differs" in str(why)


def test_requests_of_a_bundle_that_is_loading_wait_under_their_deadlines(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    class Slow(Translator):
        def __init__(self, bundle: Path, *more: Any, **named: Any) -> None:
            if bundle.name == "french":
                gate.wait(WAIT_S)
            super().__init__(bundle, *more, **named)

    monkeypatch.setattr(bundles_module, "Translator", Slow)
    with serving(folders) as connect:
        model, stream, dying = ready(connect), ready(connect, STREAM), ready(connect)
        stream.send(request(1, TEXTS[:1], target_language="fr", timeout=20_000))
        model.send(request(1, TEXTS, target_language="fr", timeout=20_000))
        model.send(request(2, TEXTS, target_language="fr"))
        dying.send(request(3, TEXTS, target_language="fr"))
        late = "CANCELLED: the deadline passed while the model 'french' was loaded"
        for answer in (model.answer(), stream.answer()):
            assert answer == Failure(1, ErrorCode.CANCELLED, late)
        model.send(request(4, TEXTS))
        assert texts_of(model.answer()) == alone(folders[0], TEXTS)
        dying.close()
        gate.set()
        answer = model.answer()
        assert answer.number == 2
        assert texts_of(answer) == alone(folders[1], TEXTS, target_language="fr")


def test_a_checked_bundle_is_checked_again_only_if_it_has_changed(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in folders[:2]]
    hashed: list[Path] = []
    proven: list[str] = []

    class Noted(Translator):
        def translate(self, *arguments: Any, **named: Any) -> list[Translation]:
            proven.append(self.manifest.identity)
            return super().translate(*arguments, **named)

    def noted(manifest: Manifest, bundle: Path) -> None:
        hashed.append(bundle)
        check_files(manifest, bundle)

    check_files = Manifest.check_files
    monkeypatch.setattr(Manifest, "check_files", noted)
    monkeypatch.setattr(bundles_module, "Translator", Noted)
    # Otherwise two bundles fit if memory of earlier tests is released meanwhile.
    monkeypatch.setattr(bundles_module, "resident_bytes", lambda: 200 * MB)
    most_bytes = bound_for(copies, 1, 250 * MB)
    to_serve = ModelsToServe(memory_bytes=most_bytes)
    bundles = Bundles(copies, EngineSettings(), to_serve, lambda _: None)

    def use(name: str) -> None:
        bundles.keeper.wait(name).result(WAIT_S).release()

    for name in ("french", "first", "french"):
        use(name)
    assert hashed == copies
    assert proven == [Manifest.read(folder).identity for folder in copies]
    (copies[0] / "model.safetensors").write_bytes(b"another")
    with pytest.raises(DragomanError, match="SHA-256 differs"):
        use("first")
    bundles.close()


def test_bundles_are_dropped_for_others_and_too_little_memory_is_refused(
    folders: list[Path],
) -> None:
    bundles = Bundles(
        folders,
        EngineSettings(),
        ModelsToServe(memory_bytes=bound_for(folders, 2, resident_bytes() + 50 * MB)),
        on_failure=lambda _: None,
    )
    for name in (*DIRECTIONS, *DIRECTIONS):
        bundles.keeper.wait(name).result(WAIT_S).release()
        assert sum(resident.is_loaded for resident in bundles.keeper.residents) <= 2
        taken_bytes = sum(resident.bytes for resident in bundles.keeper.residents)
        assert taken_bytes <= (bundles.keeper.most_bytes or 0)
    assert sum(resident.record.evictions for resident in bundles.keeper.residents) >= 3
    bundles.close()
    with pytest.raises(UsageError, match=r"--memory 0\.001MB: the engine itself takes"):
        Bundles(folders, EngineSettings(), ModelsToServe(memory_bytes=1000), lambda _: None)
    too_little = ModelsToServe(memory_bytes=resident_bytes() + 50 * MB)
    with pytest.raises(DragomanError, match=r"takes up to .* serve with more --memory"):
        Bundles(folders[:1], EngineSettings(), too_little, on_failure=lambda _: None)
    other = EngineSettings(runtime="onnxruntime")
    with pytest.raises(UsageError, match="--memory limits only the native runtime"):
        Bundles(folders, other, ModelsToServe(memory_bytes=1 << 40), lambda _: None)


def test_nothing_is_left_of_a_dropped_bundle(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    translators: weakref.WeakSet[Translator] = weakref.WeakSet()

    class Noted(Translator):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            translators.add(self)

    monkeypatch.setattr(bundles_module, "Translator", Noted)
    gc.collect()
    memory_bytes = bound_for(folders, 1, resident_bytes() + 60 * MB)
    with serving(folders, memory_bytes=memory_bytes) as connect:
        model = ready(connect)
        gc.disable()
        try:
            for direction in ("en-de", "en-fr", "de-en", "fr-en"):
                source, _, target = direction.partition("-")
                options = {"source_language": source, "target_language": target}
                model.send(request(1, TEXTS[:1], **options))
                assert isinstance(model.answer(), Answer)
            deadline_s = time.monotonic() + WAIT_S
            while len(translators) > 1:
                assert time.monotonic() < deadline_s
                time.sleep(LOOK_S)
        finally:
            gc.enable()


class Client(threading.Thread):
    """Sends requests one after the other until it is stopped; cancels some half way."""

    def __init__(self, connect: Connect, directions: Sequence[str], seed: int) -> None:
        super().__init__()
        self.model = ready(connect)
        self.directions, self.chance = directions, random.Random(seed)
        self.ends = threading.Event()
        self.answered: Counter[str] = Counter()
        self.failures: list[Failure] = []

    def run(self) -> None:
        number = 0
        while not self.ends.is_set():
            number += 1
            direction = self.chance.choice(self.directions)
            source, _, target = direction.partition("-")
            apples = [f"I have {self.chance.randint(2, 999)} apples." for _ in range(32)]
            options = {
                "source_language": source,
                "target_language": target,
                "beam_width": self.chance.choice((1, 4, 8)),
                "split_sentences": self.chance.random() < 0.5,
            }
            texts = apples if options["split_sentences"] else [" ".join(apples[:28])] * 4
            self.model.send(request(number, texts, **options))
            answer = self.model.answer()
            assert answer.number == number
            if isinstance(answer, Failure):
                self.failures.append(answer)
            else:
                self.answered[direction] += 1


@pytest.mark.thorough
def test_the_process_never_exceeds_its_memory_limit(tmp_path: Path) -> None:
    shipped = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
    directions = ("en-de", "en-fr", "de-en", "fr-de")  # twice as many as may be loaded
    folders = []
    for direction in directions:
        folders.append(tmp_path / direction)
        shutil.copytree(shipped, folders[-1], ignore=shutil.ignore_patterns(".codes-*"))
        limit_directions(folders[-1], direction)
    memory_bytes = bound_for(folders, 2, 110 * MB)
    to_serve = ModelsToServe(tuple(map(str, folders)), memory_bytes=memory_bytes)
    door = EngineSocket()
    engine = EngineProcess(door, to_serve)
    most_bytes = 0
    try:
        with contextlib.ExitStack() as connected:

            def connect() -> Triton:
                return connected.enter_context(contextlib.closing(Triton(door.path)))

            clients = [Client(connect, directions, seed) for seed in range(4)]
            for client in clients:
                client.start()
            deadline_s = time.monotonic() + WAIT_S
            answered: Counter[str] = Counter()
            while not all(answered[direction] for direction in directions):
                assert time.monotonic() < deadline_s, answered
                pages = Path(f"/proc/{engine.pid}/statm").read_text().split()[1]
                most_bytes = max(most_bytes, int(pages) * os.sysconf("SC_PAGE_SIZE"))
                answered = sum((client.answered for client in clients), Counter())
                time.sleep(0.01)
            for client in clients:
                client.ends.set()
            for client in clients:
                client.join(WAIT_S)
                assert not client.failures
    finally:
        engine.stop()
        door.close()
    assert most_bytes <= memory_bytes


def test_a_new_version_takes_over_under_load_but_a_broken_one_does_not(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_serving.models.changes.LOOK_S", LOOK_S)
    versions = [folders[0], folders[2]]
    expected = [alone(folder, TEXTS) for folder in versions]
    broken = Path(shutil.copytree(folders[1], tmp_path / "broken"))
    (broken / "tokenizer.model").write_bytes(b"")
    unreadable = tmp_path / "unreadable"
    unreadable.mkdir()
    (unreadable / FILE_NAME).write_text("{")
    link = tmp_path / "model"
    swap(link, versions[0])
    with serving([link]) as connect:
        model = ready(connect)

        def ask() -> list[str]:
            model.send(request(1, TEXTS))
            return texts_of(model.answer())

        for number in range(6):
            swap(link, broken if number % 2 else unreadable)
            seen_s = time.monotonic() + 10 * LOOK_S
            while time.monotonic() < seen_s:
                assert ask() == expected[number % 2]
            swap(link, versions[(number + 1) % 2])
            deadline_s = time.monotonic() + WAIT_S
            while (texts := ask()) != expected[(number + 1) % 2]:
                assert texts == expected[number % 2]
                assert time.monotonic() < deadline_s
        link.unlink()
        deadline_s = time.monotonic() + WAIT_S
        answer: Answer | Failure | None = None
        while not isinstance(answer, Failure):
            assert time.monotonic() < deadline_s
            model.send(request(1, TEXTS))
            answer = model.answer()
        assert answer.code is ErrorCode.INVALID_ARG
        assert answer.message.startswith("no model translates")
        swap(link, versions[0])
        while isinstance(answer, Failure):
            assert time.monotonic() < deadline_s
            model.send(request(1, TEXTS))
            answer = model.answer()
        assert texts_of(answer) == expected[0]
