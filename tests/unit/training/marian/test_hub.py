"""Models of a hub: downloaded, resumed, verified, refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from dragoman_training import patience
from dragoman_training.marian import stored_tensors
from dragoman_training.marian.hub import Hub
from dragoman_training.marian.importing import import_marian
from dragoman_training.run.checkpoint_folder import TGT_TOKENIZER

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from tests.conftest import CommandLine
from tests.marian_hub import COMMIT, MODEL, WEIGHTS, MarianHub
from tests.marian_models import MarianModel, write_marian
from tests.web_server import Fault

PIECES = "source.spm"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "model"
    write_marian(folder, MarianModel())
    return folder


@pytest.fixture
def hub(original: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MarianHub]:
    monkeypatch.setattr(patience, "_FIRST_WAIT_S", 0.001)
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with MarianHub(original).run() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        yield running


def fetch(folder: Path) -> str | None:
    folder.mkdir(exist_ok=True)
    return Hub.of_environment().fetch(MODEL, folder, lambda _file, _done, _size: None).commit


def assert_whole(folder: Path, original: Path) -> None:
    for path in folder.iterdir():
        if not path.name.startswith("."):
            assert path.read_bytes() == (original / path.name).read_bytes(), path.name
    assert (folder / WEIGHTS).exists()


@pytest.mark.parametrize(
    "model",
    [
        MarianModel(),
        MarianModel(
            separate_lists=True, pickled=True, settings={"share_encoder_decoder_embeddings": False}
        ),
    ],
    ids=["one list, safetensors", "a list a side, pickled"],
)
def test_a_hub_gives_the_same_result_as_a_folder(model: MarianModel, tmp_path: Path) -> None:
    write_marian(tmp_path / "model", model)
    import_marian(tmp_path / "model", tmp_path / "right", name=MODEL)
    with MarianHub(tmp_path / "model").run() as running:
        words = ["import-marian", MODEL, "--endpoint", running.address]
        assert main([*words, "--out", str(tmp_path / "found")]) == 0
    names = {path.name for path in (tmp_path / "right").iterdir()}
    assert names == {path.name for path in (tmp_path / "found").iterdir()}
    assert TGT_TOKENIZER in names
    for name in names:
        right, downloaded = ((tmp_path / side / name).read_bytes() for side in ("right", "found"))
        assert downloaded == right


@pytest.mark.parametrize(
    "faults",
    [
        {WEIGHTS: [Fault(most_bytes=1000), Fault(most_bytes=1000), Fault(most_bytes=0)]},
        {WEIGHTS: [Fault(stated_bytes=1000)]},
        {WEIGHTS: [Fault(stated_bytes=1 << 30)]},
        {WEIGHTS: [Fault(delay_s=0.1)]},
        {PIECES: [Fault(429, retry_after="0"), Fault(503)], WEIGHTS: [Fault(502), Fault(500)]},
        {PIECES: [Fault(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")]},
        {"config.json": [Fault(504, retry_after="soon")]},
    ],
    ids=[
        *("broken off", "too short a length", "too long a length", "slow", "busy", "a date", "odd")
    ],
)
def test_temporary_faults_of_a_server_are_overcome(
    faults: dict[str, list[Fault]], hub: MarianHub, original: Path, tmp_path: Path
) -> None:
    hub.faults = faults
    assert fetch(tmp_path / "found") == COMMIT
    assert not any(hub.faults.values())
    assert_whole(tmp_path / "found", original)


def test_an_interrupted_transfer_is_resumed_also_in_another_run(
    hub: MarianHub, original: Path, tmp_path: Path
) -> None:
    hub.faults = {WEIGHTS: [Fault(most_bytes=1000), *[Fault(most_bytes=0)] * 6]}
    with pytest.raises(UsageError, match=r"safetensors: broke off after 1000 of \d+ bytes"):
        fetch(tmp_path / "found")
    hub.requests.clear()
    fetch(tmp_path / "found")
    assert [headers["Range"] for headers in hub.asked(WEIGHTS)] == ["bytes=1000-"]
    assert_whole(tmp_path / "found", original)
    hub.requests.clear()
    fetch(tmp_path / "found")  # everything exists; no byte of the weights is sent again
    size = (original / WEIGHTS).stat().st_size
    assert [headers["Range"] for headers in hub.asked(WEIGHTS)] == [f"bytes={size}-"]
    assert_whole(tmp_path / "found", original)


@pytest.mark.usefixtures("hub")
def test_a_digest_is_that_of_the_file(original: Path, tmp_path: Path) -> None:
    fetched = Hub.of_environment().fetch(MODEL, tmp_path, lambda _file, _done, _size: None)
    weights = (original / WEIGHTS).read_bytes()
    assert fetched.digests[WEIGHTS] == hashlib.sha256(weights).hexdigest()
    assert {*fetched.digests} >= {"config.json", "vocab.json", "source.spm", "target.spm"}


def test_a_token_is_sent_only_to_the_hub(
    hub: MarianHub, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = "hf_secret"
    with pytest.raises(UsageError, match="401 Unauthorized; there is no such model, or it is not"):
        fetch(tmp_path / "found")
    monkeypatch.setenv("HF_TOKEN", hub.token)
    fetch(tmp_path / "found")
    assert_whole(tmp_path / "found", original)
    assert all("Authorization" not in headers for headers in hub.asked(WEIGHTS))
    assert hub.token not in repr(Hub.of_environment())
    monkeypatch.setenv("HF_TOKEN", "two words")
    with pytest.raises(UsageError, match=r"^HF_TOKEN: is not a valid token$"):
        Hub.of_environment()


def test_proxies_of_the_environment_are_used(
    hub: MarianHub, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", hub.address)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    fetch(tmp_path / "found")
    assert_whole(tmp_path / "found", original)


def test_nothing_is_downloaded_offline(
    hub: MarianHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UsageError, match="needs a download, which HF_HUB_OFFLINE or --offline"):
        fetch(tmp_path / "found")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert main(["import-marian", MODEL, "--offline", "--out", str(tmp_path / "made")]) == 2
    assert not hub.requests


def test_a_pickle_is_not_downloaded_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_marian(tmp_path / "model", MarianModel(pickled=True))
    monkeypatch.setattr(stored_tensors, "find_spec", lambda _name: None)
    with MarianHub(tmp_path / "model").run() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        with pytest.raises(UsageError, match=r"and reading it needs torch: .*; or name a revision"):
            fetch(tmp_path / "found")
        assert not running.asked("pytorch_model.bin")
    with pytest.raises(UsageError, match=r"pytorch_model\.bin: reading it needs torch"):
        import_marian(tmp_path / "model", tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ([Fault(most_bytes=4)] * 6, "source.spm: broke off after 4 of "),
        ([Fault(429)] * 6, "source.spm: 429 Too Many Requests; try again later"),
        ([Fault(503, retry_after="3600")], "source.spm: 503 Service Unavailable; try again later"),
        ([Fault(410)], "source.spm: 410 Gone"),
    ],
)
def test_permanent_faults_are_reported_in_one_line(
    hub: MarianHub, tmp_path: Path, faults: list[Fault], message: str
) -> None:
    hub.faults = {PIECES: list(faults)}
    with pytest.raises(UsageError) as raised:
        fetch(tmp_path / "found")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not hub.faults[PIECES]


@pytest.mark.parametrize(
    ("words", "misbehaves", "message"),
    [
        (["owner/none"], "", "/owner/none/resolve/main/config.json: no such file or model"),
        (["secret/none"], "", "401 Unauthorized; there is no such model, or it is not public"),
        ([MODEL, "--revision", "v2"], "", "no such file or model"),
        ([MODEL], "damages source.spm", f"/{COMMIT}/source.spm: has digest "),
        ([MODEL], f"damages {WEIGHTS}", "/model.safetensors: has digest "),
        (
            [MODEL],
            "leaves TLS",
            "cannot be reached: it redirects to http://hub.example/elsewhere/model.safetensors",
        ),
        ([MODEL], "states no commit", "the server states no commit and digest"),
        ([MODEL], "trusts others", "/model.safetensors: the server states no commit and"),
        ([MODEL], "changes", f"vocab.json: the hub sends commit {COMMIT[::-1]}"),
        (["owner/none", "--endpoint", "http://hub.example"], "", "write it as https://"),
        (["owner/none", "--endpoint", "file:///etc"], "", "--endpoint 'file:///etc': write it as"),
        (["owner/none", "--endpoint", "http://127.0.0.1:1"], "", "cannot be reached: "),
        (["owner/none", "--endpoint", "http://[bad"], "", "--endpoint 'http://[bad': write it as"),
        (["owner/none", "--endpoint", "http://ä..example"], "", "..example': write it as"),
        (["owner/none", "--endpoint", "http://a/ü"], "", "write it as"),
        (["owner/none", "--endpoint", "http://a:b"], "", "write it as"),
        (["owner/none", "--revision", "\udcff"], "", "--revision '\\udcff': is not UTF-8"),
        (["Ünï/model"], "", "no such folder, and a hub's names have the form owner/model"),
    ],
)
def test_an_unavailable_model_is_reported_and_leaves_no_files(
    hub: MarianHub,
    tmp_path: Path,
    words: list[str],
    misbehaves: str,
    message: str,
    cli: CommandLine,
) -> None:
    hub.misbehaves = misbehaves
    assert message in cli.refusal("import-marian", *words, "--out", str(tmp_path / "checkpoint"))
    assert not list(tmp_path.iterdir())
