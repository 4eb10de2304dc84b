"""Downloads of Firefox's models: chosen, resumed, verified, never mixed, refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from dragoman_training import patience
from dragoman_training.firefox import mozilla as mozilla_module
from dragoman_training.firefox.catalogue import Offer, choose, legs_of, offers_of_registry
from dragoman_training.firefox.mozilla import Downloaded, Mozilla
from dragoman_training.firefox.student_importing import import_student

from dragoman.kernel.errors import UsageError
from tests.marian_students import Student
from tests.mozilla_servers import RECORDS, REGISTRY, Model, MozillaServers
from tests.web_server import Fault

SMALL = Student(encoder_layers=1, decoder_layers=1, entries=300)
OTHER = Student(encoder_layers=1, decoder_layers=1, entries=300, seed=9)
TWO = Student(encoder_layers=1, decoder_layers=1, entries=300, two_tables=True)
WEIGHTS = "model.ende.intgemm.alphas.bin.gz"
MODELS = [
    Model("en-de", SMALL),
    Model("de-en", OTHER),
    Model("en-ja", TWO, architecture="base"),
    Model("en-zh-Hans", OTHER, architecture="base-memory"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models' files, which all servers share."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def servers(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MozillaServers]:
    monkeypatch.setattr(patience, "_FIRST_WAIT_S", 0.001)
    for name in ("HF_HUB_OFFLINE", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with MozillaServers(made, MODELS).run() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def nothing_said(_file: str, _done: int, _size: int | None) -> None:
    pass


def fetch(folder: Path, pair: tuple[str, str] = ("en", "de")) -> Downloaded:
    folder.mkdir(exist_ok=True)
    servers = Mozilla.of_environment()
    offer = servers.find(f"firefox:{'-'.join(pair)}", pair, None, folder)
    return servers.fetch(f"firefox:{'-'.join(pair)}", offer, folder, nothing_said)


def assert_complete(downloaded: Downloaded, made: Path, number: int = 0) -> None:
    expected = {path.name: path.read_bytes() for path in (made / str(number)).iterdir()}
    assert {path.name: path.read_bytes() for path in downloaded.folder.iterdir()} == expected
    assert downloaded.fetched.digests.keys() == expected.keys()


def test_files_come_from_the_registry_and_their_digests_from_both_lists(
    servers: MozillaServers, made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert_complete(fetch(tmp_path / "found"), made)
    assert not servers.requested(".zst")
    assert "firefox:en-de: tiny 3.0, Release" in caplog.text
    assert "firefox:en-de: licence MPL-2.0, the licence of the repository that held" in caplog.text
    assert "no digest is published" not in caplog.text
    assert_complete(fetch(tmp_path / "two", ("en", "ja")), made, 2)


@pytest.mark.parametrize("unavailable", ["missing", "not JSON", "another form"])
def test_without_the_registry_all_files_come_from_firefoxs_records(
    unavailable: str, servers: MozillaServers, made: Path, tmp_path: Path
) -> None:
    if unavailable == "missing":
        servers.missing = {REGISTRY}
    else:
        servers.content[REGISTRY] = b"{" if unavailable == "not JSON" else b"{}"
    assert_complete(fetch(tmp_path / "found"), made)
    assert not servers.requested(".gz")


def test_a_pair_that_the_registry_lacks_comes_from_the_records(
    servers: MozillaServers, made: Path, tmp_path: Path
) -> None:
    listed = json.loads(servers.content[REGISTRY])
    del listed["models"]["en-de"]
    servers.content[REGISTRY] = json.dumps(listed).encode()
    assert_complete(fetch(tmp_path / "found"), made)
    assert_complete(fetch(tmp_path / "other", ("de", "en")), made, 1)
    packed = {path.split("/")[2] for path, _ in servers.requests if path.endswith(".gz")}
    assert packed == {"de-en"}


def test_without_the_records_only_the_models_digest_is_known(
    servers: MozillaServers, made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers.missing = {RECORDS}
    assert_complete(fetch(tmp_path / "found"), made)
    assert "no digest is published of lex.50.50.ende.s2t.bin, vocab.ende.spm" in caplog.text
    servers.missing = {RECORDS, REGISTRY}
    with pytest.raises(UsageError, match="/v1/records: no such file"):
        fetch(tmp_path / "other")


def test_a_file_that_the_registry_lacks_comes_with_all_others_from_the_records(
    servers: MozillaServers, made: Path, tmp_path: Path
) -> None:
    servers.missing = {"0/lex.50.50.ende.s2t.bin.gz"}
    assert_complete(fetch(tmp_path / "found"), made)
    assert not servers.requested(WEIGHTS)
    servers.missing |= {"0-lex.50.50.ende.s2t.bin.zst"}
    with pytest.raises(UsageError, match=r"lex\.50\.50\.ende\.s2t\.bin\.zst: no such file"):
        fetch(tmp_path / "other")


@pytest.mark.parametrize(
    "faults",
    [
        {WEIGHTS: [Fault(most_bytes=1000), Fault(most_bytes=1000), Fault(most_bytes=0)]},
        {WEIGHTS: [Fault(503), Fault(429)], REGISTRY: [Fault(502)], RECORDS: [Fault(most_bytes=9)]},
        {"vocab.ende.spm.gz": [Fault(delay_s=0.1)]},
    ],
    ids=["broken off", "busy", "slow"],
)
def test_temporary_faults_are_overcome(
    faults: dict[str, list[Fault]], servers: MozillaServers, made: Path, tmp_path: Path
) -> None:
    servers.faults = faults
    assert_complete(fetch(tmp_path / "found"), made)
    assert not any(faults.values())


def test_an_interrupted_download_is_resumed_in_another_run(
    servers: MozillaServers, made: Path, tmp_path: Path
) -> None:
    (tmp_path / "found").mkdir()
    done = []

    def interrupt(file: str, bytes_done: int, _size: int | None) -> None:
        if file.startswith("model.") and bytes_done:
            done.append(bytes_done)
            raise KeyboardInterrupt

    running = Mozilla.of_environment()
    offer = running.find("firefox:en-de", ("en", "de"), None, tmp_path / "found")
    with pytest.raises(KeyboardInterrupt):
        running.fetch("firefox:en-de", offer, tmp_path / "found", interrupt)
    servers.requests.clear()
    assert_complete(fetch(tmp_path / "found"), made)
    assert [headers.get("Range") for headers in servers.requested(WEIGHTS)] == [f"bytes={done[0]}-"]
    assert not servers.requested("vocab.ende.spm.gz")


def test_a_newer_model_is_never_mixed_with_files_of_an_older_one(
    servers: MozillaServers, tmp_path: Path
) -> None:
    servers.missing = {WEIGHTS, "0-model.ende.intgemm.alphas.bin.zst"}
    with pytest.raises(UsageError, match="no such file"):
        fetch(tmp_path / "found")
    servers.missing, servers.folder = set(), tmp_path / "newer"
    servers.models = [Model("en-de", TWO, version="3.1")]
    servers.publish()
    downloaded = fetch(tmp_path / "found")
    assert_complete(downloaded, tmp_path / "newer")
    import_student(downloaded.folder, tmp_path / "checkpoint")


@pytest.mark.parametrize("file", [WEIGHTS, "vocab.ende.spm.gz", "lex.50.50.ende.s2t.bin.gz"])
@pytest.mark.parametrize("kind", ["other content", "damaged gzip", "not packed", "too large"])
def test_other_content_is_refused_and_not_kept(
    file: str, kind: str, servers: MozillaServers, made: Path, tmp_path: Path
) -> None:
    import gzip

    (path,) = (path for path in servers.content if path.endswith(f"/0/{file}"))
    right = servers.content[path]
    unpacked = gzip.decompress(right)
    message = {
        "other content": "has SHA-256 ",
        "damaged gzip": "is damaged: ",
        "not packed": "has SHA-256 ",
        "too large": "has more than " if file == WEIGHTS else "has SHA-256 ",
    }[kind]
    servers.content[path] = {
        "other content": gzip.compress(unpacked[:-1] + b"?"),
        "damaged gzip": right[: len(right) // 2] + bytes(len(right) // 2),
        "not packed": unpacked[:-1] + b"?",
        "too large": gzip.compress(unpacked + bytes(1 << 20)),
    }[kind]
    with pytest.raises(UsageError, match=message) as raised:
        fetch(tmp_path / "found")
    assert file in str(raised.value)
    assert "\n" not in str(raised.value)
    servers.content[path] = right
    assert_complete(fetch(tmp_path / "found"), made)


def test_a_file_that_the_server_unpacks_is_taken_as_it_is(
    servers: MozillaServers, made: Path, tmp_path: Path
) -> None:
    import gzip

    for path, content in servers.content.items():
        if path.endswith(".gz"):
            servers.content[path] = gzip.decompress(content)
    assert_complete(fetch(tmp_path / "found"), made)


def test_records_need_zstandard_only_for_their_files(
    servers: MozillaServers, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mozilla_module, "find_spec", lambda _name: None)
    assert_complete(fetch(tmp_path / "found"), made)
    servers.missing = {REGISTRY}
    with pytest.raises(UsageError, match="unpacking it needs zstandard: "):
        fetch(tmp_path / "other")


def test_nothing_is_downloaded_offline(
    servers: MozillaServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UsageError, match="firefox:en-de: needs a download, which HF_HUB_OFFLINE"):
        fetch(tmp_path / "found")
    assert not servers.requests


@pytest.mark.parametrize("named", ["zh", "zh-Hans"])
@pytest.mark.parametrize("listed", ["zh", "zh-Hans"])
def test_chinese_has_two_codes(named: str, listed: str, made: Path) -> None:
    models = offers(made, [Model(f"en-{listed}", SMALL)])
    assert choose(models, ("en", named), None, "any").pair == ("en", listed)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("en", "xx"), "firefox:en-xx: there is no such model; languages: de, en, ja, zh-Hans"),
        (("en", "d"), "firefox:en-d: there is no such model; for 'd' there is 'de'"),
        (("ja", "en"), "there is no such model; for these languages there is firefox:en-ja"),
    ],
)
@pytest.mark.usefixtures("servers")
def test_an_unknown_pair_is_refused_with_suggestions(
    pair: tuple[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        fetch(tmp_path / "found", pair)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("models", "architecture", "chosen"),
    [
        ([("tiny", "Nightly"), ("base", "Release")], None, "base"),
        ([("tiny", None), ("base", "Nightly")], None, "base"),
        ([("base-memory", "Release Android"), ("tiny", "Release Desktop")], None, "tiny"),
        ([("tiny", "Release"), ("base-memory", "Release")], None, "base-memory"),
        ([("tiny", "Release"), ("base-memory", "Release")], "tiny", "tiny"),
        ([("tiny", "Release"), ("base", None)], "base", "base"),
    ],
)
def test_released_models_come_first(
    models: list[tuple[str, str | None]],
    architecture: str | None,
    chosen: str,
    made: Path,
) -> None:
    listed = [Model("en-de", SMALL, architecture, status) for architecture, status in models]
    assert choose(offers(made, listed), ("en", "de"), architecture, "any").architecture == chosen
    with pytest.raises(UsageError, match="there is no such architecture; known: base"):
        choose(offers(made, [Model("en-de", SMALL, "base")]), ("en", "de"), "tiny", "any")


def offers(made: Path, models: list[Model], from_records: bool = False) -> list[Offer]:
    servers = MozillaServers(made, models, address="http://127.0.0.1:1")
    servers.publish()
    if from_records:
        from dragoman_training.firefox.catalogue import offers_of_records

        return offers_of_records(json.loads(servers.content[RECORDS]), servers.address, "records")
    return offers_of_registry(json.loads(servers.content[REGISTRY]), "registry")


@pytest.mark.parametrize(
    ("models", "chosen"),
    [
        ([("2.0", ""), ("3.0", "")], "3.0"),
        ([("3.0", ""), ("3.1a1", "")], "3.1a1"),
        ([("3.1a1", ""), ("3.1", ""), ("3.1a2", "")], "3.1"),
        ([("10.0", ""), ("9.0", "")], "10.0"),
        ([("3.0", "env.appinfo.OS != 'Android'"), ("4.0", "env.appinfo.OS == 'Android'")], "3.0"),
        ([("3.0", ""), ("4.0", "env.channel == 'default' || env.channel == 'nightly'")], "3.0"),
        ([("3.0", ""), ("4.0", "env.something == 'else'")], "3.0"),
    ],
)
def test_the_newest_version_that_firefox_uses_on_a_desktop_is_chosen(
    models: list[tuple[str, str]], chosen: str, made: Path
) -> None:
    listed = [
        Model("en-de", SMALL, version=version, where_used=where_used)
        for version, where_used in models
    ]
    assert choose(offers(made, listed, True), ("en", "de"), None, "any").version == chosen


def test_incomplete_or_insecure_entries_are_left_out(made: Path) -> None:
    servers = MozillaServers(made, MODELS[:1], address="http://127.0.0.1:1")
    servers.publish()
    listed = json.loads(servers.content[REGISTRY])
    (entry,) = listed["models"]["en-de"]
    damaged = [
        None,
        {},
        {**entry, "files": {name: entry["files"][name] for name in ("model", "lexicalShortlist")}},
        {**entry, "files": {**entry["files"], "model": {"path": "model.bin.gz"}}},
        {**entry, "files": {**entry["files"], "vocab": {"path": "../../.."}}},
        {**entry, "files": {**entry["files"], "vocab": {"path": 5}}},
        {**entry, "architecture": None},
    ]
    listed["models"] = {"en-de": damaged, "de-en": "none"}
    assert offers_of_registry(listed, "registry") == []
    with pytest.raises(UsageError, match="registry: baseUrl or models is not as expected"):
        offers_of_registry({**listed, "baseUrl": "http://elsewhere.example"}, "registry")
    with pytest.raises(UsageError, match="registry: has no 'models'"):
        offers_of_registry({"baseUrl": "https://x"}, "registry")


def test_pairs_without_english_go_through_it() -> None:
    assert legs_of(("en", "de")) == (("en", "de"),)
    assert legs_of(("de", "fr")) == (("de", "en"), ("en", "fr"))


def test_a_server_must_be_secure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_FIREFOX_FILES_URL", "http://elsewhere.example")
    with pytest.raises(UsageError, match="DRAGOMAN_FIREFOX_FILES_URL is 'http://elsewhere"):
        Mozilla.of_environment()
