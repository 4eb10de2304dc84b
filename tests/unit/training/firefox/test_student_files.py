"""Files of Firefox's models: what is read, and that damaged or other files are refused."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dragoman_training.config import RunConfig
from dragoman_training.firefox.student_file import StudentFile
from dragoman_training.firefox.student_importing import import_student
from dragoman_training.firefox.student_settings import StudentSettings
from dragoman_training.marian.languages import Languages
from dragoman_training.run import checkpoint_folder
from dragoman_training.run.checkpoint_folder import (
    CONFIG,
    SHORTLIST,
    TGT_TOKENIZER,
    TOKENIZER,
    WEIGHTS,
)
from safetensors.numpy import load_file

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import END_ID, UNKNOWN_ID, Tokenizer
from tests.conftest import CommandLine
from tests.marian_students import (
    FIRST,
    LISTS,
    MODEL,
    TGT_VOCABULARY,
    VOCABULARY,
    Student,
    as_text,
    checksum,
    dequantised,
    lists_of,
    settings_of,
    tensors_of,
    trained_vocabulary,
    word_vocabulary,
    write_lists,
    write_model,
    write_student,
)

SMALL = Student(encoder_layers=1, decoder_layers=1, entries=300)
TWO = Student(encoder_layers=1, decoder_layers=1, entries=300, two_tables=True)
Change = Callable[[Path], object]


def our_id(marian_id: int) -> int:
    """Our id of a token in a vocabulary without padding or start token."""
    return {0: END_ID, 1: UNKNOWN_ID}.get(marian_id, marian_id + 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_student(tmp_path / "model", SMALL)
    return tmp_path / "model"


def settings(old: str, new: str) -> Change:
    def apply(folder: Path) -> None:
        text = settings_of(SMALL)
        assert old in text
        write_model(folder / MODEL, text.replace(old, new), tensors_of(SMALL))

    return apply


def tensors(name: str, value: object) -> Change:
    """Replace a tensor; None removes it."""

    def apply(folder: Path) -> None:
        changed = {**tensors_of(SMALL), name: value}
        kept = {name: tensor for name, tensor in changed.items() if tensor is not None}
        write_model(folder / MODEL, settings_of(SMALL), kept)  # type: ignore[arg-type]

    return apply


def patched(name: str, offset: int, content: bytes) -> Change:
    def apply(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        begin = offset if offset >= 0 else len(data) + offset
        data[begin : begin + len(content)] = content
        (folder / name).write_bytes(data)

    return apply


def relisted(offset: int, number: int) -> Change:
    """Replace a 64-bit number of the shortlists; the checksum is right again."""

    def apply(folder: Path) -> None:
        patched(LISTS, offset, struct.pack("<Q", number))(folder)
        body = (folder / LISTS).read_bytes()[16:]
        patched(LISTS, 8, struct.pack("<Q", checksum(body)))(folder)

    return apply


def longer(folder: Path) -> None:
    (folder / MODEL).write_bytes((folder / MODEL).read_bytes() + b"more")


def for_one_side(folder: Path) -> None:
    (folder / VOCABULARY).rename(folder / TGT_VOCABULARY)


def shorter(name: str, length: int) -> Change:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:length])


def write(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content)


def first_dimension(folder: Path) -> int:
    """Where the dimensions begin."""
    data = (folder / MODEL).read_bytes()
    (count,) = struct.unpack_from("<Q", data, 8)
    names = sum(struct.unpack_from("<Q", data, 16 + 32 * index)[0] for index in range(count))
    return 16 + 32 * int(count) + int(names)


def dimension(number: int) -> Change:
    return lambda folder: patched(MODEL, first_dimension(folder), struct.pack("<i", number))(folder)


CODES = tensors_of(SMALL)["Wemb"]
assert isinstance(CODES, tuple)
NUMBERS = np.zeros((64, 64), np.float32)
MOST = (1 << 64) - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (patched(MODEL, 0, b"\2"), "is not a binary file of Marian's, or of another version"),
        (shorter(MODEL, 10), "is cut short or damaged: it has 10 bytes"),
        (shorter(MODEL, 100_000), "is cut short or damaged: it has 100000 bytes"),
        (write(MODEL, b""), "is cut short or damaged"),
        (patched(MODEL, 8, struct.pack("<Q", MOST)), "is cut short or damaged"),
        (patched(MODEL, 16, struct.pack("<Q", MOST)), "is cut short or damaged"),
        (patched(MODEL, 16, struct.pack("<Q", 3)), "the name of a tensor is"),
        (patched(MODEL, 24, struct.pack("<Q", 7)), "is of the unknown type 0x0007"),
        (patched(MODEL, 32, struct.pack("<Q", 1 << 60)), "dimensions"),
        (patched(MODEL, 40, struct.pack("<Q", MOST)), "is cut short or damaged"),
        (patched(MODEL, 40, struct.pack("<Q", 3)), "has 3 bytes, its shape needs "),
        (dimension(-64), "has shape [-64, 64]"),
        (dimension(0), "has shape [0, 64]"),
        (dimension((1 << 31) - 1), "its shape needs"),
        (longer, "has 4 bytes after its last"),
        (tensors("Wemb", None), "the tensor 'Wemb' is missing"),
        (tensors("new", NUMBERS), "the tensor 'new' is not part of such a model"),
        (tensors("encoder_l1_self_Wq", NUMBERS[:, :32]), "has shape [64, 32], special:model.yml"),
        (tensors("encoder_l1_self_Wq", NUMBERS + np.inf), "has numbers that are not finite"),
        (tensors("encoder_l1_self_bq", CODES), "'encoder_l1_self_bq' has shape [300, 64]"),
        (tensors("Wemb", (CODES[0], np.float32(0))), "'Wemb' has the multiplier 0.0"),
        (tensors("Wemb", (CODES[0], np.float32("nan"))), "'Wemb' has the multiplier nan"),
        (tensors("Wemb", (CODES[0] * 0 - 128, CODES[1])), "'Wemb' has a code of -128"),
        (
            settings("dec-cell: ssru", "dec-cell: gru"),
            "dec-cell is 'gru'; only 'ssru' is supported",
        ),
        (settings("dec-cell: ssru\n", ""), "special:model.yml: dec-cell is missing"),
        (settings("skip: false", "skip: true"), "skip is 'true'; only 'false' is supported"),
        (settings("skip:", "skips:"), "skips ('false') is not a known setting"),
        (settings("skip: false", "type: transformer\ntype: s2s"), "type is there twice"),
        (settings("dim-emb: 64", "dim-emb: 64.5"), "dim-emb is '64.5': expected a number"),
        (settings("dim-emb: 64", f"dim-emb: {'9' * 5000}"), "expected a number"),
        (settings("dim-emb: 64", "dim-emb: 128"), "has shape [300, 64], special:model.yml says"),
        (settings("dim-emb: 64", "dim-emb: 999999999"), "special:model.yml says [300, 999999999]"),
        (settings("heads: 4", "heads: 7"), "model.model_size is 64: give an even multiple"),
        (settings("  - 300\n  - 300", "  - 300\n  - 301"), "dim-vocabs is ['300', '301']"),
        (settings("  - 300\n  - 300", "  300"), "line 3 is not understood: '  300'"),
        (settings("  - 300\n  - 300", ""), "dim-vocabs is not a list"),
        (settings("-all: true", "-all: false"), "neither tied-embeddings-all nor tied-embeddings"),
        (
            settings("tied-layers:\n  []", "tied-layers: [1, 2]"),
            "transformer-tied-layers is ['1', '2']; only [] is supported",
        ),
        (write(VOCABULARY, b"no pieces"), "vocab.ende.spm: not a SentencePiece model"),
        (write(VOCABULARY, word_vocabulary(301)), "has 301 entries, the model has 300"),
        (lambda folder: (folder / VOCABULARY).unlink(), "has no file srcvocab*.spm"),
        (for_one_side, "has no file srcvocab*.spm"),
        (write("lex.more.bin", b""), "has 2 files lex*.bin; keep one"),
        (write(LISTS, b"x" * 40), "is cut short: it has 40 bytes"),
        (patched(LISTS, 0, b"\0"), "is not a file of Marian's shortlists"),
        (patched(LISTS, 100, b"\7"), "is damaged: its checksum is 0x"),
        (patched(LISTS, 40, struct.pack("<Q", MOST)), "its header says "),
        (patched(LISTS, 32, struct.pack("<Q", 1 << 40)), "its header says "),
        (shorter(LISTS, 1000), "has 1000 bytes, its header says "),
        (relisted(56, 1 << 50), "has lists outside its ids"),
        (relisted(48, 1), "has lists outside its ids"),
        (
            lambda folder: write_lists(folder / LISTS, lists_of(TWO)[:-1], FIRST),
            "has lists of 299 tokens, the source vocabulary has 300",
        ),
        (
            lambda folder: write_lists(folder / LISTS, [[1000]] * 300, FIRST),
            "ids outside the vocabulary",
        ),
    ],
)
def test_damaged_or_unsupported_files_are_refused_in_one_line(
    folder: Path, change: Change, message: str, cli: CommandLine
) -> None:
    change(folder)
    out = folder.parent / "checkpoint"
    assert message in cli.refusal("import-marian", str(folder), "--out", str(out))
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_damaged_headers_need_no_memory(folder: Path) -> None:
    content = (folder / MODEL).read_bytes()
    head = first_dimension(folder) + 500
    generator = random.Random(1)
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(head)] = generator.randrange(256)
        (folder / MODEL).write_bytes(damaged)
        tracemalloc.start()
        try:
            file = StudentFile(folder / MODEL)
            StudentSettings.parse(file.path, file.settings)
        except UsageError:
            refused += 1
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 * len(content)
    assert refused > 200


def test_codes_keep_their_values_and_their_order(folder: Path, tmp_path: Path) -> None:
    import_student(folder, tmp_path / "checkpoint")
    stored = load_file(tmp_path / "checkpoint" / WEIGHTS)
    order = np.arange(64).reshape(2, 32).T.flatten()
    theirs = tensors_of(SMALL)
    for name, codes in (
        ("encoder_layers.0.feed_forward.inner", "encoder_l1_ffn_W1"),
        ("decoder_layers.0.cross_attention.query", "decoder_l1_context_Wq"),
    ):
        coded = theirs[codes]
        assert isinstance(coded, tuple)
        assert stored[f"{name}.weight"].dtype == np.int8
        assert np.array_equal(stored[f"{name}.weight"], coded[0].T[:, order])
        assert set(stored[f"{name}.weight.scales"].ravel()) == {np.float32(1) / coded[1]}
    weights = checkpoint_folder.read_arrays(tmp_path / "checkpoint" / WEIGHTS)
    table = dequantised(theirs["Wemb"])[:, order]  # type: ignore[arg-type]
    for marian_id in range(300):
        assert np.array_equal(weights["embedding.weight"][our_id(marian_id)], table[marian_id])
    assert not weights["embedding.weight"][[0, 2]].any()
    assert weights["output_bias"][UNKNOWN_ID] == -(2.0**15)


def test_shortlists_contain_marians(tmp_path: Path) -> None:
    """With one vocabulary, source tokens may be copied; with two, their ids mean other tokens."""
    for student, copied in ((SMALL, True), (TWO, False)):
        folder, out = tmp_path / str(copied), tmp_path / f"{copied} checkpoint"
        write_student(folder, student)
        import_student(folder, out)
        arrays = load_file(out / SHORTLIST)
        begins, ids = arrays["begins"], arrays["ids"]
        listed = [set(ids[begins[row] : begins[row + 1]]) for row in range(len(begins) - 1)]
        assert len(listed) == len(Tokenizer(out / TOKENIZER).vocabulary)
        first = {our_id(token) for token in range(FIRST)} - {UNKNOWN_ID}
        theirs = lists_of(student)
        for source in (0, 5, 299):
            of_source = {our_id(token) for token in theirs[source]} - {UNKNOWN_ID}
            copies = {our_id(source)} if copied else set()
            expected = of_source | copies | (first if source == 0 else set())
            assert listed[our_id(source)] == expected
        assert not listed[0]
        assert not listed[2]


def test_a_checkpoint_says_what_firefox_does(folder: Path, tmp_path: Path) -> None:
    import_student(folder, tmp_path / "checkpoint")
    config = RunConfig.from_json(tmp_path / "checkpoint" / CONFIG)
    assert config.directions == (("en", "de"),)
    assert config.imported is not None
    assert config.imported.alignment_head == (0, 0)
    assert [config.limits.target_tokens(source) for source in (1, 7, 128)] == [2, 14, 256]
    assert config.limits.sentence_tokens == 127
    # Again, with --force, over its own files.
    with pytest.raises(UsageError, match="give --force to replace it"):
        import_student(folder, tmp_path / "checkpoint")
    import_student(folder, tmp_path / "checkpoint", Languages(("fr",), (("en", None),)), force=True)
    assert RunConfig.from_json(tmp_path / "checkpoint" / CONFIG).languages == ("fr", "en")


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("model.enfr.intgemm.alphas.bin", ("en", "fr")),
        ("model.en-zh-Hans.intgemm.alphas.bin", ("en", "zh-Hans")),
        ("model.zh-Hansen.intgemm8.bin", ("zh-Hans", "en")),
        ("model.intgemm.alphas.bin", ("en", "de")),
    ],
)
def test_files_names_state_the_languages(
    folder: Path, tmp_path: Path, name: str, direction: tuple[str, str]
) -> None:
    (folder / MODEL).rename(folder / name)
    assert import_student(folder, tmp_path / "checkpoint").directions == (direction,)


def test_without_names_the_languages_must_be_given(folder: Path, tmp_path: Path) -> None:
    (folder / MODEL).rename(folder / "model.intgemm.alphas.bin")
    (folder / VOCABULARY).rename(folder / "vocab.spm")
    with pytest.raises(UsageError, match="its name has no languages; give --source and --target"):
        import_student(folder, tmp_path / "checkpoint")
    for languages in (Languages(("en",)), Languages((), (("de", None), ("fr", None)))):
        with pytest.raises(UsageError, match="has one direction: name one --source and one"):
            import_student(folder, tmp_path / "checkpoint", languages)


TEXTS = (
    "The quick brown fox jumps over 12 lazy dogs.",
    "Ein Wörterbuch, 3,5 kg, für Übersetzer: naïve Ænigma!",
    "  spaces  and\ttabs  ",
    "emoji 🦊 and 漢字 that it lacks",
    "__source__ </s> <unk> <0x41>",
    "",
)


def test_texts_have_the_ids_of_sentencepiece(tmp_path: Path) -> None:
    import sentencepiece

    lines = [f"{text} {number}" for number in range(40) for text in TEXTS[:3]]
    made = trained_vocabulary(
        lines,
        model_type="unigram",
        vocab_size=310,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="nmt_nfkc",
        hard_vocab_limit=True,
        user_defined_symbols=["__source__", "__target__"],
    )
    student = Student(encoder_layers=1, decoder_layers=1, entries=310)
    write_student(tmp_path / "model", student)
    (tmp_path / "model" / VOCABULARY).write_bytes(made)
    import_student(tmp_path / "model", tmp_path / "checkpoint")
    tokenizer = Tokenizer(*(tmp_path / "checkpoint" / name for name in (TOKENIZER, TGT_TOKENIZER)))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=made)
    for text in TEXTS:
        ids = theirs.EncodeAsIds(text)
        assert tokenizer.encode(text) == [our_id(token) for token in ids]
        assert tokenizer.encode_source(text, "de") == [*tokenizer.encode(text), END_ID]
        assert tokenizer.target.decode(tokenizer.encode(text)) == theirs.DecodeIds(ids)


def test_words_name_their_ids() -> None:
    """What all comparisons with Marian rely on."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_proto=word_vocabulary(300))
    ids = [2, 3, 150, 299]
    assert pieces.EncodeAsIds(as_text(ids)) == ids
