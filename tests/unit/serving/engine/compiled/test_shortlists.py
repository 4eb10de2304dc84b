"""Searches in which each sentence has its own shortlist, or none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dragoman_serving.engine.arrays import Floats
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.compiled.compiled_decoding import NativeDecoding
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.library import LANES
from dragoman_serving.engine.compiled.shortlists import Shortlists
from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import BatchLimits
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from dragoman.kernel.errors import UsageError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import Manifest, SpecialIds, digests
from tests.unit.serving.engine.random_options import VOCAB, options, search_options

FILE = "shortlist.safetensors"
WAIT_S = 60
END = SpecialIds(tags={}).end


@pytest.fixture(scope="module")
def bundle(random_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each source token has three target tokens, other ones for each language."""
    folder = tmp_path_factory.mktemp("listed") / "bundle"
    shutil.copytree(random_bundle, folder)
    manifest = Manifest.load(folder)
    tags = list(manifest.special_ids.tags.values())
    ids = np.random.default_rng(0).integers(6, VOCAB, (len(tags) * VOCAB, 3))
    begins = np.arange(len(ids) + 1, dtype=np.int32) * 3
    arrays = {"tags": np.array(tags), "begins": begins, "ids": ids.ravel().astype(np.uint16)}
    save_file(arrays, folder / FILE)
    files = {**manifest.files, **digests(folder, [FILE])}
    replace(manifest, shortlist=FILE, files=files).write(folder)
    return folder


@pytest.fixture(scope="module")
def network(bundle: Path) -> NativeNetwork:
    return NativeNetwork(bundle, Manifest.load(bundle))


@pytest.fixture(scope="module")
def engine(network: NativeNetwork, bundle: Path) -> Iterator[Engine]:
    ids, limits = Manifest.load(bundle).special_ids, BatchLimits(rows=24, waiting=200)
    running = Engine(network, ids, workers=1, limits=limits)
    yield running
    running.close()


def listed_tokens(bundle: Path, src_ids: Sequence[int], *others: int) -> set[int]:
    """All tokens of the vectors with a token of the file's lists, or with one of the others."""
    arrays = load_file(bundle / FILE)
    group = arrays["tags"].tolist().index(src_ids[0])
    tokens = {END, *others}
    for token in src_ids:
        begin, end = arrays["begins"][group * VOCAB + token :][:2]
        tokens |= set(arrays["ids"][begin:end].tolist())
    vectors = {token // LANES for token in tokens}
    return {token for token in range(VOCAB) if token // LANES in vectors}


def results(engine: Engine, sentences: list[Sentence]) -> list[Hypothesis]:
    return [future.result(WAIT_S) for future in engine.submit(sentences)]


sources = st.tuples(
    st.sampled_from([4, 5]), st.lists(st.integers(6, VOCAB - 1), max_size=9).map(tuple)
).map(lambda parts: (parts[0], *parts[1], END))
sentences = st.builds(
    lambda src_ids, limit, search, listed: Sentence(
        src_ids, limit, replace(search_options(search), shortlist=listed)
    ),
    sources,
    st.integers(1, 30),
    options,
    st.booleans(),
)
PLAIN = Sentence((4, 9, 80, END), 20, SearchOptions(1, 0.0, shortlist=True))
BEAM = Sentence((5, 100, END), 20, SearchOptions(4, 0.6, shortlist=True))
FREE = Sentence((5, 200, 300, END), 25, SearchOptions(4, 0.6))


@given(together=st.lists(sentences, min_size=2, max_size=12))
@example(together=[PLAIN, replace(PLAIN, options=SearchOptions(1, 0.0)), BEAM, FREE] * 3)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_a_result_does_not_depend_on_the_batch(engine: Engine, together: list[Sentence]) -> None:
    hypotheses = results(engine, together)
    assert hypotheses == [results(engine, [sentence])[0] for sentence in together]


@given(sentence=sentences)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_translations_have_only_listed_tokens(
    engine: Engine, bundle: Path, sentence: Sentence
) -> None:
    constraints = sentence.options.constraints or Constraints()
    sentence = replace(sentence, options=replace(sentence.options, shortlist=True))
    allowed = listed_tokens(bundle, sentence.src_ids, *constraints.prefix)
    best = results(engine, [sentence])[0]
    for hypothesis in (best, *best.others):
        assert set(hypothesis.ids) <= allowed
        prefix = constraints.prefix[: len(hypothesis.ids)]
        assert hypothesis.ids[: len(prefix)] == prefix


def step_scores(
    network: NativeNetwork, together: Sequence[Sentence], width: int
) -> Iterator[tuple[NativeDecoding, Floats]]:
    """Scores of steps after random tokens; for beams, whose rows move, of the first step."""
    steps = 6 if width == 1 else 1
    decoding = network.begin(width, SpecialIds(tags={}, end=-1), slots=len(together))
    decoding.join([replace(sentence, max_tokens=90) for sentence in together])
    for tokens in np.random.default_rng(1).integers(6, VOCAB, (steps, len(together) * width)):
        decoding.ids[:] = tokens
        decoding.step()
        yield decoding, decoding.scores.copy()


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("number", [1, 2, 3, 5, 7, 30, 70])
def test_scores_of_listed_tokens_equal_those_without_shortlists(
    network: NativeNetwork, bundle: Path, number: int, width: int
) -> None:
    """They are bit-identical; a third of the sentences has no shortlist."""
    generator = np.random.default_rng(number)
    together = [
        Sentence(
            (4 + i % 2, *generator.integers(6, VOCAB, generator.integers(1, 6)).tolist(), END),
            20,
            SearchOptions(width, 0.0, shortlist=i % 3 != 1),
        )
        for i in range(number)
    ]
    free = [
        replace(sentence, options=replace(sentence.options, shortlist=False))
        for sentence in together
    ]
    masks = np.array([mask(bundle, sentence) for sentence in together]).repeat(width, axis=0)
    assert not masks.all()
    steps = (step_scores(network, batch, width) for batch in (together, free))
    for (decoding, computed), (_, right) in zip(*steps, strict=True):
        for scores, listed, of_row in zip(computed, masks, right, strict=True):
            assert np.array_equal(scores[: listed.sum()], of_row[listed])
        if width == 1:
            assert np.array_equal(decoding.ids, np.where(masks, right, -np.inf).argmax(axis=1))


def mask(bundle: Path, sentence: Sentence) -> npt.NDArray[np.bool_]:
    """[V], the tokens that a sentence may have if no end symbol is needed."""
    if not sentence.options.shortlist:
        return np.ones(VOCAB, bool)
    arrays = load_file(bundle / FILE)
    group = arrays["tags"].tolist().index(sentence.src_ids[0])
    rows = [group * VOCAB + token for token in sentence.src_ids]
    vectors = arrays["ids"].reshape(-1, 3)[rows] // LANES
    return np.isin(np.arange(VOCAB) // LANES, vectors)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_unlisted_tokens_can_be_required(engine: Engine, bundle: Path, width: int) -> None:
    outside = sorted(set(range(6, VOCAB)) - listed_tokens(bundle, PLAIN.src_ids))
    constraints = Constraints(prefix=(outside[0], outside[-1]))
    search = SearchOptions(width, 0.6, 1, constraints, shortlist=True)
    hypothesis = results(engine, [replace(PLAIN, options=search)])[0]
    assert hypothesis.ids[:2] == constraints.prefix


@pytest.mark.parametrize("width", [1, 2, 4])
def test_any_listed_token_can_be_forbidden_as_the_first(
    engine: Engine, bundle: Path, width: int
) -> None:
    for token in listed_tokens(bundle, PLAIN.src_ids):
        not_first = np.full(VOCAB, -np.inf, np.float32)
        not_first[token] = 0.0
        search = SearchOptions(width, 0.6, 1, Constraints(not_first=not_first), shortlist=True)
        hypothesis = results(engine, [replace(PLAIN, options=search)])[0]
        assert (*hypothesis.ids, END)[0] == token


def test_a_model_without_shortlists_refuses_the_option(random_bundle: Path) -> None:
    network = NativeNetwork(random_bundle, Manifest.load(random_bundle))
    decoding = network.begin(1, SpecialIds(tags={}), slots=1)
    with pytest.raises(ValueError, match="a shortlist that the model does not have"):
        decoding.join([PLAIN])


LISTS = "has not a list for each source token"
SHAPE = "has a tensor of another shape"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("ids", lambda _: None, "has no tensor 'ids'"),
        ("begins", lambda begins: begins[:-1], LISTS),
        ("begins", lambda begins: begins[::-1].copy(), LISTS),
        ("begins", lambda begins: begins[:0], SHAPE),
        ("begins", lambda begins: begins[None], SHAPE),
        ("tags", lambda tags: tags[:1], LISTS),
        ("tags", lambda tags: tags + 1, LISTS),
        ("ids", lambda ids: ids + np.uint16(100), "ids that are not below 320"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    bundle: Path, tmp_path: Path, name: str, change: Callable[[Any], Any], message: str
) -> None:
    arrays = load_file(bundle / FILE)
    arrays[name] = change(arrays[name])
    save_file({name: array for name, array in arrays.items() if array is not None}, tmp_path / FILE)
    with pytest.raises(UsageError, match=message):
        Shortlists(tmp_path / FILE, Manifest.load(bundle))
    (tmp_path / FILE).write_bytes(b"\x08" + bytes(40))
    with pytest.raises(UsageError, match="cannot be read"):
        Shortlists(tmp_path / FILE, Manifest.load(bundle))
