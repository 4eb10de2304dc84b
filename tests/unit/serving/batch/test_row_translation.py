"""Texts that cannot be translated, among others that can."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from dragoman_client import Translator
from dragoman_client.core import errors
from dragoman_client.core.tensors import Values
from dragoman_client.testing import FakeTransport
from dragoman_options.table import TRANSLATE, Translation
from dragoman_serving.batch import row_translation
from dragoman_serving.batch.chunks import Outcome, RowError
from dragoman_serving.batch.row_translation import CONTROL, RowTranslation


class FragileTransport(FakeTransport):
    """Fails on some texts; one that crashes the server also fails the others in progress."""

    def __init__(self, failing: Mapping[str, errors.TranslationError]) -> None:
        super().__init__()
        self._failing = failing
        self._lock = threading.Lock()
        self._ends = 0

    def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        ends = self._ends
        texts = [text.decode() for text in inputs["text_input"]]
        for index, text in enumerate(texts):
            if (error := self._failing.get(text)) is not None:
                if isinstance(error, errors.ServerError):
                    with self._lock:
                        self._ends += 1
                message = str(error).format(index)
                if "{}" in str(error):
                    raise errors.InvalidRequest(message, text_index=index)
                raise type(error)(message)
        answer = super().infer(inputs, timeout_s, model)
        if self._ends != ends:
            raise errors.ServerError("ended by another request")
        return answer


FAILING: dict[str, errors.TranslationError] = {
    "ends": errors.ServerError("the engine's process ended by itself"),
    "takes long": errors.DeadlineExceeded("the deadline passed"),
    "refused": errors.InvalidRequest("text {} has too many characters"),
}


def translate(
    texts: list[str], failing: Mapping[str, errors.TranslationError], batch_size: int = 100
) -> list[Outcome]:
    with Translator(transport=FragileTransport(failing), retries=0) as translator:
        return RowTranslation(translator, {}, batch_size).translate(texts)


def expected(text: str) -> Outcome:
    if text == "refused":
        return RowError("the text has too many characters")
    if text in FAILING:
        return RowError(str(FAILING[text]))
    return Translation(f"<{text.upper()}>", len(text), "stop")


@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_only_the_faulty_texts_have_errors(batch_size: int) -> None:
    texts = [str(number) for number in range(50)]
    for at, text in zip((0, 20, 21, 49), ("ends", "refused", "takes long", "ends"), strict=True):
        texts[at] = text
    assert translate(texts, FAILING, batch_size) == list(map(expected, texts))


def test_a_text_that_crashes_the_server_does_not_fail_other_threads() -> None:
    lists = [[f"{number} {row}" for row in range(40)] for number in range(4)]
    lists[1][17] = lists[3][5] = "ends"
    with Translator(transport=FragileTransport(FAILING), retries=0) as translator:
        rows = RowTranslation(translator, {}, 10)
        with ThreadPoolExecutor(4) as pool:
            translated = list(pool.map(rows.translate, lists))
    assert translated == [[expected(text) for text in texts] for texts in lists]


@pytest.mark.parametrize(
    "error",
    [
        errors.AccessDenied("another token"),
        errors.ServerError("broken"),
        errors.InvalidRequest("target_language is 'xx'"),
    ],
)
def test_a_failure_of_every_text_ends_the_run(error: errors.TranslationError) -> None:
    with pytest.raises(type(error), match=str(error)):
        translate(["a", "b"], {"a": error, "b": error, CONTROL: error})


def test_the_number_of_harmful_texts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_translation, "MOST_HARMFUL", 3)
    with pytest.raises(errors.ServerError):
        translate(["ends"] * 4, FAILING)
    assert len(translate(["ends"] * 3, FAILING)) == 3
    refused = translate(["refused"] * 10, FAILING)
    assert refused == [expected("refused")] * 10
