"""Bundles of Firefox's models: graphs as Marian, codes as in the file, batches as single lines."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from dragoman_export.bundle import export_bundle
from dragoman_export.checks import Graphs, engine, translate
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.library import LANES
from dragoman_serving.engine.compiled.weights import load_weights
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_training.firefox.student_importing import import_student
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import search
from dragoman_training.run import checkpoint
from safetensors.numpy import load_file

from dragoman.kernel.manifest import AlignmentHeads, Manifest
from dragoman.kernel.positions import sinusoidal_positions
from dragoman.kernel.text import Tokenizer
from tests import marian_lines
from tests.marian_lines import BEAMS, Ids
from tests.marian_students import KINDS, as_ids, as_text, float_twin, tensors_of, write_student


@dataclass(frozen=True)
class Made:
    """Bundles of one kind of model, from float32 and from int8."""

    kind: str
    folder: Path

    def manifest(self, stored: str) -> Manifest:
        return Manifest.load(self.folder / stored)

    def tokenizer(self) -> Tokenizer:
        return self.manifest("float32").open_tokenizer(self.folder / "float32")

    def sources(self, lines: Sequence[Ids]) -> list[list[int]]:
        tokenizer = self.tokenizer()
        return [tokenizer.encode_source(as_text(ids), "de") for ids in lines]


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("bundles")
    student = KINDS[request.param]
    for stored, model in (("float32", float_twin(student)), ("int8", student)):
        write_student(folder / f"{stored} model", model)
        import_student(folder / f"{stored} model", folder / f"{stored} checkpoint")
        storage = "fp32" if stored == "float32" else "int8"
        export_bundle(folder / f"{stored} checkpoint", folder / stored, storage)  # type: ignore[arg-type]
    return Made(request.param, folder)


@pytest.mark.parametrize(
    ("made", "stored"),
    [
        *((kind, "int8") for kind in KINDS),
        *(
            # The weights are equal; only how they are read differs.
            pytest.param(kind, "float32", marks=[pytest.mark.thorough] if index else [])
            for index, kind in enumerate(KINDS)
        ),
    ],
    indirect=["made"],
)
def test_every_token_of_the_graphs_equals_marians(made: Made, stored: str) -> None:
    """With beam 4, those of PyTorch by the same search: Marian's own search differs."""
    bundle, manifest = made.folder / stored, made.manifest(stored)
    decode = made.tokenizer().target.decode
    lines = marian_lines.recorded(made.kind).lines[1]
    sources = made.sources(lines.sources)
    with engine(Graphs(bundle, manifest).network("fp32"), manifest) as running:
        greedy = translate(running, manifest, sources, SearchOptions(1, 0.0))
        beams = translate(running, manifest, sources[:10], SearchOptions(4, 0.6))
    assert [as_ids(decode(ids)) for ids in greedy] == lines.translations
    model = checkpoint.load(bundle).model
    limits = [manifest.limits.target_tokens(len(ids)) for ids in sources[:10]]
    results = search(model, sources[:10], limits, Options(4, 0.6))
    assert beams == [best.ids for best, *_ in results]


@pytest.mark.parametrize("shortlist", [False, True])
@pytest.mark.parametrize("beam", BEAMS)
def test_compiled_tokens_do_not_depend_on_other_sentences(
    made: Made, beam: int, shortlist: bool
) -> None:
    lines = marian_lines.recorded(made.kind).lines[beam]
    bundle, manifest = made.folder / "int8", made.manifest("int8")
    sources = made.sources(lines.sources[:25])
    options = SearchOptions(beam, 0.6, shortlist=shortlist)
    with engine(NativeNetwork(bundle, manifest), manifest) as running:
        together = translate(running, manifest, sources, options)
        alone = [translate(running, manifest, [source], options)[0] for source in sources]
    assert together == alone
    assert len({token for ids in together for token in ids}) > 20


def test_compiled_code_multiplies_with_the_codes_of_the_file(made: Made) -> None:
    bundle, manifest = made.folder / "int8", made.manifest("int8")
    longest = manifest.limits.max_target_tokens
    weights = load_weights(bundle / manifest.weights, manifest.dimensions, longest)
    block = weights.block.tobytes()
    theirs = tensors_of(KINDS[made.kind])
    stored = load_file(bundle / manifest.weights)
    tables = {"embedding": "decoder_Wemb" if "decoder_Wemb" in theirs else "Wemb"}
    for ours, name in {
        "encoder_layers.0.self_attention.output": "encoder_l1_self_Wo",
        "decoder_layers.0.cross_attention.query": "decoder_l1_context_Wq",
        "decoder_layers.0.feed_forward.outer": "decoder_l1_ffn_W2",
        **tables,
    }.items():
        coded = theirs[name]
        assert isinstance(coded, tuple)
        codes = stored[f"{ours}.weight"]
        assert {*np.unique(codes)} == {*np.unique(coded[0]), 0}
        rows = codes[: len(codes) // 64 * 64]
        laid_out = rows.reshape(-1, LANES, rows.shape[1] // 4, 4).transpose(0, 2, 1, 3)
        assert laid_out.tobytes() in block
        scale = np.float32(1) / coded[1]
        if ours.endswith("query"):
            scale /= np.sqrt(np.float32(manifest.dimensions.head_size))
        assert np.full(len(rows), scale, np.float32).tobytes() in block


def test_the_embedding_is_read_from_the_codes_of_the_output_layer(made: Made) -> None:
    bundle, manifest = made.folder / "int8", made.manifest("int8")
    longest, sizes = manifest.limits.max_target_tokens, manifest.dimensions
    weights = load_weights(bundle / manifest.weights, sizes, longest)
    stored = load_file(bundle / manifest.weights)
    table = stored["embedding.weight"] * stored["embedding.weight.scales"]
    assert table.astype(np.float16).tobytes() not in weights.block.tobytes()
    compiled = ctypes.CDLL(str(library._path(library.usable_instruction_sets()[0])))
    compiled.embed.argtypes = *(ctypes.c_void_p,) * 2, *(ctypes.c_int64,) * 2, ctypes.c_void_p
    compiled.embed.restype = None
    position = sinusoidal_positions(4, sizes.model_size, sizes.position_rates)[3]
    for token in (0, 1, 17, 100, sizes.vocab_size - 1):
        x = np.empty(sizes.model_size, np.float32)
        compiled.embed(weights.address, None, token, 3, x.ctypes.data)
        expected = table[token] * np.sqrt(np.float32(sizes.model_size)) + position
        assert x == pytest.approx(expected, abs=1e-6)


def test_a_bundle_has_shortlists_and_the_trained_head(made: Made) -> None:
    manifest = made.manifest("int8")
    last = manifest.dimensions.decoder_layers - 1
    assert manifest.shortlist is not None
    assert manifest.alignment == AlignmentHeads(((last, 0),), False, "trained", 0.0, 0, "none")
    again = made.folder / "again"
    if not again.exists():
        copy = export_bundle(made.folder / "int8", again, "int8")
        assert copy.shortlist == manifest.shortlist
        assert copy.files == manifest.files
