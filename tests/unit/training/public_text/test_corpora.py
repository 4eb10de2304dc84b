from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import re
import socket
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pytest
from dragoman_training.config import resolve
from dragoman_training.public_text.corpora import Corpus, FetchedText, SideFile, read_registry
from dragoman_training.public_text.download import LOCK, RemoteFile
from dragoman_training.public_text.fetching import fetch_corpora
from dragoman_training.text.parallel_text import read_pairs

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from tests.conftest import REPOSITORY, CommandLine, files_no_larger_than
from tests.web_server import Fault, Handler, serving


@dataclass
class Server:
    """Serves files from memory, with ranges; breaks off after `breaks_after` bytes."""

    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    breaks_after: int | None = None
    leads_to: str | None = None
    ranges: list[str] = field(default_factory=list)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()

    class Files(Handler):
        def respond(self) -> None:
            if server.leads_to is not None:
                self.answer(302, {"Location": server.leads_to})
                return
            server.ranges.append(self.headers.get("Range", ""))
            body = server.files.get(self.path[1:])
            if body is None:
                self.send_error(404)
                return
            tag = f'"{hashlib.sha256(body).hexdigest()}"'
            self.send_file(body, tag, Fault(most_bytes=server.breaks_after))

    with serving(Files) as server.port:
        yield server


def archived(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, body in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return out.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return out.getvalue()


ENGLISH, GERMAN = "one\ntwö\n\n", "eins\nzwei\n\n"
ARCHIVE = archived({"./a/text.en": ENGLISH.encode(), "a/text.de": GERMAN.encode()})
TEXT = FetchedText("x/train", {"en": SideFile("a/text.en"), "de": SideFile("a/text.de")})


def corpus(
    server: Server,
    *texts: FetchedText,
    name: str = "a.tgz",
    sha256: str | None = None,
    md5: str | None = None,
) -> Corpus:
    source = RemoteFile(server.url(name), sha256, md5)
    return Corpus("a", "free", "here", (source,), texts or (TEXT,))


def check_refused(message: str, folder: Path, *corpora: Corpus) -> None:
    with pytest.raises(UsageError, match=message):
        list(fetch_corpora(corpora, folder))


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


OWN = """\
[[corpora]]
name = "mine"
licence = "mine"
home = "here"
sources = [{{ url = "{}" }}]
[[corpora.texts]]
prefix = "x/train"
sides = {{ en = {{ member = "a/text.en" }}, de = {{ member = "a/text.de" }} }}
"""
WHOLE = [LOCK, "x/train.de.gz", "x/train.en.gz"]


def test_a_corpus_is_downloaded_into_the_layout_that_recipes_name(
    server: Server, tmp_path: Path
) -> None:
    server.files["a.tgz"] = ARCHIVE
    seen: list[tuple[int, int | None]] = []
    counts = fetch_corpora(
        [corpus(server)], tmp_path, lambda _url: lambda *there: seen.append(there)
    )
    assert list(counts) == [("x/train", 3)]
    assert left(tmp_path) == WHOLE
    assert not (tmp_path / ".downloads").exists()
    assert read_pairs(tmp_path / "x/train", ("en", "de")) == [("one", "eins"), ("twö", "zwei")]
    assert (seen[0], seen[-1]) == ((0, len(ARCHIVE)), (len(ARCHIVE), len(ARCHIVE)))
    assert list(fetch_corpora([corpus(server)], tmp_path)) == []
    assert len(server.ranges) == 1, "what is there is not fetched again"


def test_a_broken_transfer_is_resumed(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"], server.breaks_after = ARCHIVE, 100
    known = {"sha256": hashlib.sha256(ARCHIVE).hexdigest()}
    broken = rf"a\.tgz: broke off after 100 of {len(ARCHIVE)} bytes: .*; run it again to resume"
    with pytest.raises(UsageError, match=broken) as raised:
        list(fetch_corpora([corpus(server, **known)], tmp_path))
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "x").exists()
    server.breaks_after = None
    assert list(fetch_corpora([corpus(server, **known)], tmp_path)) == [("x/train", 3)]
    assert server.ranges == ["", "bytes=100-"]
    assert left(tmp_path) == WHOLE


def test_a_file_that_changed_is_downloaded_from_the_start(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"], server.breaks_after = ARCHIVE, 100
    check_refused("broke off", tmp_path, corpus(server))
    other = archived({"a/text.en": b"three\n", "a/text.de": b"drei\n"})
    server.files["a.tgz"], server.breaks_after = other, None
    assert list(fetch_corpora([corpus(server)], tmp_path)) == [("x/train", 1)]


@pytest.mark.parametrize(
    ("kind", "known"), [("SHA-256", {"sha256": "0" * 64}), ("MD5", {"md5": "0" * 32})]
)
def test_another_file_than_the_registrys_is_refused(
    server: Server, tmp_path: Path, kind: str, known: dict[str, str]
) -> None:
    server.files["a.tgz"] = ARCHIVE
    message = rf"a\.tgz: has {kind} \w+, the registry says 0+;"
    check_refused(message, tmp_path, corpus(server, **known))
    assert left(tmp_path) == []


def test_another_file_than_the_first_time_is_refused(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.files["a.tgz"] = ARCHIVE
    caplog.set_level("INFO")
    list(fetch_corpora([corpus(server)], tmp_path))
    digest = hashlib.sha256(ARCHIVE).hexdigest()
    assert f"a.tgz: SHA-256 {digest}, kept in {tmp_path / LOCK}" in caplog.text
    assert json.loads((tmp_path / LOCK).read_text()) == {server.url("a.tgz"): digest}
    server.files["a.tgz"] = archived({"a/text.en": b"three\n", "a/text.de": b"drei\n"})
    (tmp_path / "x/train.en.gz").unlink()
    check_refused(rf"when first downloaded it was, .*{digest}", tmp_path, corpus(server))
    assert left(tmp_path) == [LOCK, "x/train.de.gz"]


def test_a_missing_network_or_file_is_reported_in_one_line(server: Server, tmp_path: Path) -> None:
    check_refused(r"a\.tgz: the server answered 404 Not Found", tmp_path, corpus(server))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        source = RemoteFile(f"http://127.0.0.1:{free.getsockname()[1]}/a.tgz")
        nobody = Corpus("a", "free", "here", (source,), (TEXT,))
        check_refused(r"cannot be reached: .*refused.*--data-dir", tmp_path, nobody)
    assert left(tmp_path) == []
    for url in ("file:///etc/passwd", "http://corpora.example/a.tgz"):
        with pytest.raises(UsageError, match=f"url is '{url}': give one that begins with https://"):
            RemoteFile(url)


def test_a_redirect_without_tls_is_not_followed(server: Server, tmp_path: Path) -> None:
    server.leads_to = "http://corpora.example/a.tgz"
    message = rf"a\.tgz: cannot be reached: it redirects to {server.leads_to}, which is not https"
    check_refused(message, tmp_path, corpus(server))
    assert left(tmp_path) == []


def test_nothing_is_written_outside_the_folder(server: Server, tmp_path: Path) -> None:
    outside = {"../evil": b"out\n", "/tmp/dragoman-evil": b"out\n"}
    sides = {"a/text.en": ENGLISH.encode(), "a/text.de": GERMAN.encode()}
    server.files["a.tgz"] = archived({**outside, **sides})
    server.files["a.zip"] = zipped({**outside, **sides})
    data = tmp_path / "below" / "data"
    assert list(fetch_corpora([corpus(server)], data)) == [("x/train", 3)]
    other = FetchedText("y/train", dict(TEXT.sides))
    assert list(fetch_corpora([corpus(server, other, name="a.zip")], data)) == [("y/train", 3)]
    assert left(tmp_path) == sorted(
        f"below/data/{name}" for name in (*WHOLE, "y/train.de.gz", "y/train.en.gz")
    )
    for prefix in ("../evil", "/evil", ""):
        with pytest.raises(UsageError, match=f"prefix is {prefix!r}"):
            FetchedText(prefix, dict(TEXT.sides))
    for language in ("/../../../evil", "", "e n", "-"):
        with pytest.raises(UsageError, match=f"x: a side is {language!r}: give a code such as en"):
            FetchedText("x", {"en": SideFile(), language: SideFile()})


def test_damaged_and_unequal_texts_are_refused(server: Server, tmp_path: Path) -> None:
    whole = bytes(range(256)) * 20 + b"\n"
    for name, body, message in (
        ("cut.tgz", archived({"a/text.en": whole, "a/text.de": whole})[:300], "cannot be read"),
        ("lacks.tgz", archived({"a/text.en": b"one\n"}), "a/text.de in .*: is not there"),
        (
            "unequal.tgz",
            archived({"a/text.en": b"one\ntwo\n", "a/text.de": b"eins\n"}),
            "the sides differ in their number of lines: 2 in en, 1 in de",
        ),
    ):
        server.files[name] = body
        with pytest.raises(UsageError, match=message) as raised:
            list(fetch_corpora([corpus(server, name=name)], tmp_path / name))
        assert "\n" not in str(raised.value)
        assert not any("train" in path for path in left(tmp_path / name))
        assert LOCK not in left(tmp_path / name), "what is of no use is not what must come again"


def test_a_damaged_download_is_repeated(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = ARCHIVE[:-40]
    message = r"a/text.* in .*a\.tgz: cannot be read: .*; it has been removed, run it again"
    check_refused(message, tmp_path, corpus(server))
    assert left(tmp_path) == []
    # A lock of an earlier version may have its digest.
    digest = hashlib.sha256(server.files["a.tgz"]).hexdigest()
    other = {"http://other/b": "1" * 64}
    (tmp_path / LOCK).write_text(json.dumps({server.url("a.tgz"): digest, **other}))
    check_refused(message, tmp_path, corpus(server))
    assert json.loads((tmp_path / LOCK).read_text()) == other
    server.files["a.tgz"] = ARCHIVE
    assert list(fetch_corpora([corpus(server)], tmp_path)) == [("x/train", 3)]


def test_an_existing_download_is_checked_too(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = ARCHIVE
    pinned = corpus(server, sha256=hashlib.sha256(ARCHIVE).hexdigest())
    path = tmp_path / ".downloads" / pinned.sources[0].name
    path.parent.mkdir()
    path.write_bytes(archived({"a/text.en": b"three\n", "a/text.de": b"drei\n"}))
    check_refused(r"a\.tgz: has SHA-256 \w+, the registry says", tmp_path, pinned)
    assert list(fetch_corpora([pinned], tmp_path)) == [("x/train", 3)]


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"a\nb"])
def test_a_transfer_killed_after_its_completion_is_used(
    server: Server, tmp_path: Path, damage: bytes
) -> None:
    server.files["a.tgz"], server.breaks_after = ARCHIVE, 100
    check_refused("broke off", tmp_path, corpus(server))
    (partial,) = (tmp_path / ".downloads").glob(".*.partial")
    partial.write_bytes(ARCHIVE)
    server.breaks_after = None
    if damage:
        partial.with_name(partial.name.replace(".partial", ".version")).write_bytes(damage)
    assert list(fetch_corpora([corpus(server)], tmp_path)) == [("x/train", 3)]
    assert server.ranges == ["", "" if damage else f"bytes={len(ARCHIVE)}-"]
    assert left(tmp_path) == WHOLE


def test_a_corpus_leaves_no_download_if_the_next_one_fails(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = ARCHIVE
    missing = corpus(server, FetchedText("y/train", dict(TEXT.sides)), name="none.tgz")
    check_refused("404", tmp_path, corpus(server), missing)
    assert left(tmp_path) == WHOLE
    # A file that the next corpus needs too is downloaded once.
    again = corpus(server, FetchedText("y/train", dict(TEXT.sides)))
    counts = dict(fetch_corpora([corpus(server), again], tmp_path / "both"))
    assert (counts, server.ranges) == ({"x/train": 3, "y/train": 3}, ["", "", ""])
    assert not (tmp_path / "both/.downloads").exists()


def test_the_compression_of_a_file_is_detected_from_its_content(
    server: Server, tmp_path: Path
) -> None:
    server.files |= {"a.txt": gzip.compress(b"one\n"), "b.gz": b"eins\n", "c": b"\x80\n", "d": b""}
    server.files["e"] = lzma.compress(b"un\n")
    sources = tuple(RemoteFile(server.url(name)) for name in server.files)

    def fetched(prefix: str, second: int, third: int) -> list[tuple[str, ...]]:
        sides = {"en": SideFile(), "de": SideFile(source=second), "fr": SideFile(source=third)}
        text_corpus = Corpus("a", "free", "here", sources, (FetchedText(prefix, sides, pairs=7),))
        list(fetch_corpora([text_corpus], tmp_path))
        return read_pairs(tmp_path / prefix, ("en", "de", "fr"))

    assert fetched("x", 1, 4) == [("one", "eins", "un")]
    with pytest.raises(UsageError, match="y: line 1 in fr is not UTF-8"):
        fetched("y", 1, 2)
    with pytest.raises(UsageError, match=r"z: the sides differ .*; to download it again, remove /"):
        fetched("z", 1, 3)


def test_an_empty_text_is_refused_and_another_number_of_pairs_is_reported(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.files["a.tgz"] = archived({"a/text.en": b"", "a/text.de": b""})
    check_refused("x/train: has no pairs; to download it again", tmp_path, corpus(server))
    (tmp_path / "other").mkdir()
    server.files["b.tgz"] = ARCHIVE
    for pairs in (3, 4):
        text = FetchedText(f"x/{pairs}", dict(TEXT.sides), pairs)
        list(fetch_corpora([corpus(server, text, name="b.tgz")], tmp_path))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["x/4: has 3 pairs, the registry says 4"]


def test_an_existing_text_in_another_form_is_not_hidden(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = ARCHIVE
    (tmp_path / "x").mkdir()
    (tmp_path / "x/train.en").write_text("older\n")
    check_refused(r"x/train\.en\.gz: .*x/train\.en exists, and one", tmp_path, corpus(server))
    assert server.ranges == []


def test_a_zip_file_with_a_password_is_refused_in_one_line(server: Server, tmp_path: Path) -> None:
    body = bytearray(zipped({"a/text.en": b"one\n", "a/text.de": b"one\n"}))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for place in (match.start() for match in re.finditer(mark, bytes(body))):
            body[place + flags] |= 1
    server.files["a.zip"] = bytes(body)
    message = r"a/text\.en in .*a\.zip: cannot be read: .*password"
    check_refused(message, tmp_path, corpus(server, name="a.zip"))


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ('"a/text.en"', '"a/text.en", column = -3', "column is -3: give one counted from 0"),
        ("https://here/a", "https://[x", "url is 'https://[x': Invalid IPv6 URL"),
        ("https://here/a", "https://here/ä", "url is 'https://here/ä': write spaces and non-ASCII"),
        ("de =", '"/../../evil" =', "x/train: a side is '/../../evil': give a code such as en"),
        ('"x/train"', '"x/valid"', "mine: x/valid.en.gz is already written by mine"),
        ('"x/train"', '"newstest/newstest2013.en-de"', "is already written by newstest"),
    ],
)
def test_an_invalid_registry_is_refused_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    cli: CommandLine,
    written: str,
    instead: str,
    message: str,
) -> None:
    registry = tmp_path / "own.toml"
    own = OWN.format("https://here/a") + "held_out = 20\n"
    registry.write_text(own)
    words = ["corpora", "--registry", str(registry)]
    assert main(words) == 0
    capsys.readouterr()
    registry.write_text(own.replace(written, instead))
    assert message in cli.refusal(*words)


def test_a_full_disk_leaves_no_text(server: Server, tmp_path: Path) -> None:
    noise = "".join(hashlib.sha256(str(i).encode()).hexdigest() for i in range(2000)).encode()
    server.files["a.tgz"] = archived({"a/text.en": noise, "a/text.de": noise})
    with files_no_larger_than(20_000), pytest.raises(UsageError, match="cannot be written"):
        list(fetch_corpora([corpus(server)], tmp_path))
    source = corpus(server).sources[0]
    begun = [f".downloads/.{source.name}.{name}" for name in ("partial", "version")]
    assert left(tmp_path) == begun
    list(fetch_corpora([corpus(server)], tmp_path))
    assert server.ranges == ["", "bytes=20000-"]
    for path in tmp_path.rglob("*.*"):
        path.unlink()
    (tmp_path / ".downloads").mkdir()
    (tmp_path / ".downloads" / source.name).write_bytes(server.files["a.tgz"])
    with files_no_larger_than(20_000), pytest.raises(UsageError, match="x/train: cannot be writt"):
        list(fetch_corpora([corpus(server)], tmp_path))
    assert left(tmp_path) == [f".downloads/{source.name}"]


def test_texts_may_be_in_columns_segments_and_separate_files(
    server: Server, tmp_path: Path
) -> None:
    table = b"one\teins\tby A\ntwo\n"
    segments = b'<doc>\n<seg id="1"> one </seg>\n<seg id="2">two</seg>\n</doc>\n'
    server.files["table.tsv.gz"] = gzip.compress(table)
    server.files["side.gz"] = gzip.compress(b"un\ndeux\n")
    server.files["sgm.tar"] = archived({"t/x.sgm": segments, "t/y.gz": gzip.compress(table)}, "w")
    names = ("table.tsv.gz", "side.gz", "sgm.tar")
    texts = (
        FetchedText("columns", {"en": SideFile(column=0), "de": SideFile(column=1)}),
        FetchedText("files", {"en": SideFile(column=0), "fr": SideFile(source=1)}),
        FetchedText("inner", {"en": SideFile("t/x.sgm", 2), "de": SideFile("t/y.gz", 2, column=1)}),
    )
    sources = tuple(RemoteFile(server.url(name)) for name in names)
    several = Corpus("several", "free", "here", sources, texts)
    assert dict(fetch_corpora([several], tmp_path)) == {"columns": 2, "files": 2, "inner": 2}
    assert read_pairs(tmp_path / "columns", ("en", "de")) == [("one", "eins")]
    assert read_pairs(tmp_path / "files", ("en", "fr")) == [("one", "un"), ("two", "deux")]
    assert read_pairs(tmp_path / "inner", ("en", "de")) == [("one", "eins")]
    assert len(server.ranges) == 3


def test_some_pairs_are_held_out_by_their_first_side(server: Server, tmp_path: Path) -> None:
    # Each English sentence twice, with two translations.
    english = [f"sentence {index // 2}" for index in range(2000)]
    german = [f"Satz {index}" for index in range(2000)]
    sides = {"a/text.en": english, "a/text.de": german}
    server.files["a.tgz"] = archived({k: "\n".join(v).encode() for k, v in sides.items()})
    text = FetchedText("x/train", dict(TEXT.sides), held_out=20)
    counts = dict(fetch_corpora([corpus(server, text)], tmp_path / "one"))
    assert list(counts) == ["x/train", "x/valid", "x/test"]
    assert sum(counts.values()) == 2000
    assert all(40 <= counts[f"x/{name}"] <= 180 for name in ("valid", "test"))
    parts = {prefix: read_pairs(tmp_path / "one" / prefix, ("en", "de")) for prefix in counts}
    assert sorted(chain.from_iterable(parts.values())) == sorted(zip(english, german, strict=True))
    sources = [{src for src, _ in pairs} for pairs in parts.values()]
    assert sum(map(len, sources)) == 1000, "none stands in two of them"
    dict(fetch_corpora([corpus(server, text)], tmp_path / "two"))
    for prefix, pairs in parts.items():
        assert read_pairs(tmp_path / "two" / prefix, ("en", "de")) == pairs
    with pytest.raises(UsageError, match="x/train: held_out is 2: give 3 or more"):
        FetchedText("x/train", dict(TEXT.sides), held_out=2)


def test_the_command_lists_and_downloads_the_users_corpora(
    server: Server, tmp_path: Path, cli: CommandLine
) -> None:
    server.files["a.tgz"] = ARCHIVE
    registry = tmp_path / "own.toml"
    registry.write_text(OWN.format(server.url("a.tgz")))
    words = ["corpora", "--registry", str(registry)]
    rows = {row["name"]: row for row in cli.rows(*words, "--json")}
    assert rows["mine"]["pinned"] is False
    assert rows["flores200"]["prefixes"] == ["flores200/dev", "flores200/devtest"]
    assert re.search(r"^wmt14-en-de +en-de +4,520,620 pairs", cli.prints(*words), re.M)
    data = tmp_path / "data"
    assert cli.prints(*words, "fetch", "mine", "--data-dir", data) == "x/train: 3 pairs\n"
    assert "mine: no such corpus; known: tatoeba-en-de" in cli.refuses(
        "corpora", "fetch", "mine", "--data-dir", data
    )
    registry.write_text(registry.read_text().replace("licence", "license"))
    assert "unknown key 'license'" in cli.refuses(*words)


def test_recipes_name_texts_as_the_registry_does() -> None:
    texts = [text for corpus in read_registry().values() for text in corpus.texts]
    known = {prefix for text in texts for prefix in text.prefixes}
    assert len(known) >= 20
    for name in ("base", "big"):
        config = resolve(
            REPOSITORY / f"training/dragoman_training/recipes/wmt14-en-de-{name}.toml", []
        )
        named = (*config.data.train, *config.data.valid, *config.cleaning.held_out)
        assert {corpus.prefix for corpus in named} <= known
    for name in ("en-de-fr", "tatoeba"):
        config = resolve(REPOSITORY / f"training/dragoman_training/recipes/{name}.toml", [])
        named = (*config.data.train, *config.data.valid, *config.cleaning.held_out)
        # Microsoft's and PHP's documentation was aligned from their repositories.
        own = tuple(text.prefix for text in named if text.prefix.startswith(("msdocs-", "phpdoc-")))
        assert {text.prefix for text in named} - known == set(own)
