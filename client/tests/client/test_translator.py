"""Single requests and batches, over a transport without a server."""

import itertools
import math
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import dragoman_client.translator
import numpy as np
import pytest
from dragoman_client import AsyncTranslator, InvalidRequest, ServerError, Translator
from server_fixtures import Either
from stand_ins import FakeTransport, translated


def test_a_text_gives_a_translation_and_a_list_a_list() -> None:
    """A list of one text and other sequences give a list of translations."""
    with Translator(transport=FakeTransport()) as translator:
        assert translator.translate("a").text == "<A>"
        assert [t.text for t in translator.translate(["a"])] == ["<A>"]
        assert [t.text for t in translator.translate(("a", "b"))] == ["<A>", "<B>"]


def test_no_texts_need_no_request() -> None:
    """Options are also checked if there are no texts."""
    transport = FakeTransport()
    translator = Translator(transport=transport)
    assert translator.translate([]) == []
    assert list(translator.translate_batches([])) == []
    assert not transport.requests
    with pytest.raises(TypeError, match="beam_width"):
        translator.translate([], beam_width=True)


@pytest.mark.parametrize("texts", [b"a", 1, None, ["a", None], {"a": "b"}, iter(["a"])])
def test_invalid_texts_are_refused(texts: Any) -> None:
    """No request is sent."""
    transport = FakeTransport()
    with pytest.raises(TypeError, match="must be str"):
        Translator(transport=transport).translate(texts)
    assert not transport.requests


@pytest.mark.parametrize("client", [Translator, AsyncTranslator])
@pytest.mark.parametrize("timeout_s", [0, -1.0, float("nan"), float("inf"), True, "30"])
def test_a_timeout_must_be_a_positive_and_finite_number(client: type, timeout_s: Any) -> None:
    """A timeout may be neither a bool nor a string."""
    kind = ValueError if type(timeout_s) in (int, float) else TypeError
    with pytest.raises(kind, match="timeout_s"):
        client(timeout_s=timeout_s)


async def test_a_closed_translator_raises_an_error(either: Either) -> None:
    """Every method of a closed translator raises `RuntimeError`."""
    client = either("http://localhost")
    await client.close()
    for method, *texts in (("is_ready",), ("translate", "a"), ("translate_batches", ["a"])):
        with pytest.raises(RuntimeError, match="closed"):
            await getattr(client, method)(*texts)


@pytest.mark.parametrize("batch_size", [1, 7, 200])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_batches_keep_order_and_number_of_texts(batch_size: int, concurrency: int) -> None:
    """The requests of the batches take different times."""
    transport = FakeTransport(longest_delay_s=0.004)
    texts = [f"line {number}" for number in range(100)]
    translations = Translator(transport=transport).translate_batches(
        texts, batch_size=batch_size, concurrency=concurrency, target_language="de"
    )
    assert [t.text for t in translations] == [translated(text) for text in texts]
    sizes = sorted(len(request.inputs["text_input"]) for request in transport.requests)
    assert len(sizes) == -(-100 // batch_size)
    assert sizes[-1] == min(batch_size, 100)
    assert all(request.inputs["target_language"] == ["de"] for request in transport.requests)


def test_batches_run_concurrently_up_to_the_limit() -> None:
    transport = FakeTransport(longest_delay_s=0.01)
    texts = [str(number) for number in range(60)]
    list(Translator(transport=transport).translate_batches(texts, batch_size=2, concurrency=3))
    assert transport.most_under_way == 3


def test_batches_read_only_a_little_ahead() -> None:
    """The input may be endless."""
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        for read in itertools.count(1):
            yield f"line {read}"

    stream = Translator(transport=FakeTransport()).translate_batches(
        endless(), batch_size=5, concurrency=2
    )
    for handed_out in range(1, 101):
        assert next(stream).text == translated(f"line {handed_out}")
        assert read <= handed_out + 5 * (2 * 2 + 1)


def test_a_dialogue_gets_each_answer_before_the_next_question() -> None:
    """With one text a request and one request at a time, nothing is read ahead."""
    heard: list[str] = []

    def dialogue() -> Iterator[str]:
        for number in range(5):
            assert len(heard) == number
            yield str(number)

    stream = Translator(transport=FakeTransport(0.002)).translate_batches(
        dialogue(), batch_size=1, concurrency=1
    )
    for translation in stream:
        heard.append(translation.text)
    assert heard == [translated(str(number)) for number in range(5)]


@pytest.mark.parametrize(
    ("method", "texts", "options", "kind", "message"),
    [
        ("translate", [1], {}, TypeError, "text 0 must be str"),
        ("translate_stream", ["a"], {}, TypeError, "text 0 must be str"),
        ("translate_stream", "a", {"beam_width": "1"}, TypeError, "beam_width"),
        ("translate_stream", "a", {"beam_width": True}, TypeError, "beam_width"),
        ("translate", "a", {"markup": {"codes": ["a"]}}, ValueError, r"text 0: codes\[0\] is"),
        ("translate_stream", "a", {"num_return_sequences": 2}, ValueError, "not supported in a"),
        ("translate_batches", ["a"], {"markup": {"codes": []}}, ValueError, "not for texts in"),
        ("translate_batches", "one text", {}, TypeError, "not one text: use translate"),
        ("translate_batches", [], {"batch_size": 0}, ValueError, "batch_size is 0"),
        ("translate_batches", [], {"concurrency": True}, TypeError, "concurrency"),
        ("translate_batches", [], {"beam_width": 0}, ValueError, "beam_width"),
    ],
)
async def test_invalid_arguments_are_refused_before_a_request(
    either: Either, method: str, texts: Any, options: Any, kind: type[Exception], message: str
) -> None:
    """Arguments are checked before the first translation is read."""
    async with either("http://localhost:1") as client:
        with pytest.raises(kind, match=message):
            await getattr(client, method)(texts, **options)


def test_batches_report_an_invalid_text_with_its_index() -> None:
    """The message has the index among all texts, not within a batch."""
    texts: list[Any] = ["a"] * 10
    texts[7] = 7
    stream = Translator(transport=FakeTransport()).translate_batches(texts, batch_size=2)
    with pytest.raises(TypeError, match="text 7 must be str, got int"):
        list(stream)


def test_a_refused_batch_is_reported_after_the_earlier_ones() -> None:
    """The error of a refused batch ends the iteration."""
    texts = ["a", "b", "c", "bad", "d", "e"]
    transport = FakeTransport(0.01)
    transport.refused = "bad"
    stream = Translator(transport=transport).translate_batches(texts, batch_size=2)
    assert [next(stream).text, next(stream).text] == ["<A>", "<B>"]
    with pytest.raises(InvalidRequest):
        next(stream)
    assert list(stream) == []


def test_threads_of_an_abandoned_iteration_end() -> None:
    """The reader stops before the last translation."""
    stream = Translator(transport=FakeTransport()).translate_batches(["a"] * 100, batch_size=1)
    next(stream)
    assert isinstance(stream, Iterator)
    stream.close()  # type: ignore[attr-defined]
    workers = [t for t in threading.enumerate() if t.name.startswith("dragoman-client")]
    for worker in workers:
        worker.join(timeout=1)
    assert not any(worker.is_alive() for worker in workers)


def test_several_threads_share_a_translator() -> None:
    """Each stream gets its own translations."""
    translator = Translator(transport=FakeTransport(longest_delay_s=0.002))
    got: dict[str, list[str]] = {}

    def work(name: str) -> None:
        texts = (f"{name}{number}" for number in range(40))
        got[name] = [t.text for t in translator.translate_batches(texts, batch_size=3)]

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {name: [translated(f"{name}{n}") for n in range(40)] for name in "abcd"}


def test_the_examples_of_the_readme_run(
    grpc_url: str,
    http_url: str,
    gateway_url: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The examples run against servers with the protocols of a gateway and of Triton."""
    readme = Path(dragoman_client.translator.__file__).parents[2] / "README.md"
    blocks = readme.read_text("utf-8").split("```python\n")[1:]
    assert len(blocks) == 12
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        code = block.split("```")[0].replace("http://localhost:8000", http_url)
        code = code.replace("http://localhost:5000", gateway_url)
        code = code.replace("grpc://localhost:8001", grpc_url)
        exec(code.replace("localhost:8001", grpc_url.removeprefix("grpc://")), {})
    first, *printed = capsys.readouterr().out.splitlines()
    assert first == "<GOOD MORNING.>"
    assert printed[:3] == ["<GOOD MORNING.> 13 stop", "<GOOD MORNING.>", "<GOOD NIGHT.>"]
    assert printed[3:103] == [f"<I AM {number} YEARS OLD.>" for number in range(2, 102)]
    assert printed[103] == "< "
    assert printed[-21:] == [
        "<I WOULD LIKE A CUP OF COFFEE.> stop",
        '1 1 text, 2 words {"id": 1, "text": "Good morning.", "translation": "<GOOD MORNING.>", '
        '"output_tokens": 13, "finish_reason": "stop"}',
        "",
        f"-13.0 {np.float32(-1.3)} {math.exp(-float(np.float32(-1.3)))} 0-0",
        *("<GOOD MORNING.>", "", "    <I AM HUNGRY. I HAVE TIME.>", ""),
        "Health(ready=True, reason=None) ('en', 'de')",
        "0.1.0 {'least': 1, 'most': 8, 'above': False}",
        *("en de () None", "de en () None"),
        *(f"<I AM {number} YEARS OLD.>" for number in range(20, 23)),
        *("<HELLO.>", "Guten Abend."),
        "{'text_input': ['Good evening.'], 'beam_width': [2]}",
        "the server is busy",
        *("<GOOD MORNING.>", "<GOOD NIGHT.>"),
    ]


def test_texts_in_batches_have_one_prefix(tmp_path: Path) -> None:
    """A list of prefixes would restart with each batch."""
    wrong = "prefix has 2 values: texts in batches have one"
    options: Any = {"prefix": ["One", "Two"], "batch_size": 2}
    (tmp_path / "in").write_text("a\nb\nc\n")
    with Translator(transport=FakeTransport()) as translator:
        with pytest.raises(ValueError, match=wrong):
            translator.translate_file(tmp_path / "in", tmp_path / "out", **options)
        with pytest.raises(ValueError, match=wrong):
            translator.translate_batches(["a", "b", "c"], **options)
        assert not list(tmp_path.glob("out*"))
        assert len(list(translator.translate_batches(["a", "b", "c"], prefix="One"))) == 3


def test_batches_of_an_asynchronous_iterable_are_refused() -> None:
    async def texts() -> AsyncIterator[str]:
        yield "One."

    with (
        Translator(transport=FakeTransport()) as translator,
        pytest.raises(TypeError, match="use AsyncTranslator"),
    ):
        list(translator.translate_batches(texts()))  # type: ignore[arg-type]


def test_a_stream_without_parts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = FakeTransport()
    monkeypatch.setattr(transport, "stream", lambda *_: (part for part in ()))
    with Translator(transport=transport) as translator:
        stream = translator.translate_stream("One.")
        with pytest.raises(ServerError):
            list(stream)
