"""Live sessions: how often shown words change, how far they lag, and how long an update takes.

Sentences are sent word by word, as from speech. Flicker: words that were erased, over the words of
the final translations. Lag: average lagging (Ma et al. 2019, https://arxiv.org/abs/1810.08398) in
source words, where a word counts as shown when it does not change any more. BLEU: of the final
translations. Then sessions at the pace of speech send updates at the same time.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import sacrebleu
from dragoman_gateway.live.growing_translation import common_length, erased_words
from dragoman_training.text.parallel_text import read_pairs

from dragoman.kernel.errors import DragomanError
from lab.measurement import DATA_DIR, Results, number, program, progress
from lab.report import markdown_table
from lab.servers import run_gateway, serve

_CORPUS = "dialog-en-de"
_LANGUAGES = {"source_language": "en", "target_language": "de"}
_WAYS: dict[str, dict[str, Any] | None] = {
    "each update anew": None,
    "live": {},
    "live, `revise` 1": {"revise": 1},
    "live, `revise` 2": {"revise": 2},
    "live, `revise_sentences`": {"revise_sentences": True},
}
_WORDS_PER_S = 3.0
Update = Callable[[str, bool], str]
"""Returns the translation of the text so far; the second argument: whether it is complete."""


@dataclass
class Shown:
    """What the sentences of a way of translating showed."""

    texts: list[str] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    erased: int = 0

    def add(self, steps: Sequence[str]) -> None:
        """Add the translations of a sentence that grew by a word each; the last one is complete."""
        final = steps[-1].split()
        self.erased += sum(erased_words(old, new) for old, new in pairwise(steps))
        self.texts.append(steps[-1])
        if final:
            self.lags.append(_average_lagging(steps, final))

    @property
    def flicker(self) -> float:
        """Erased words over final words."""
        return self.erased / sum(len(text.split()) for text in self.texts)


class Caller:
    """Calls the API over one connection."""

    def __init__(self, url: str) -> None:
        """Store the URL of a gateway."""
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send an object; returns the response."""
        headers = {"Content-Type": "application/json"}
        self._connection.request(method, f"/api/v1{path}", json.dumps(body), headers)
        content = self._connection.getresponse().read()
        answer = json.loads(content or "{}")
        if "error" in answer:
            raise DragomanError(answer["error"]["message"])
        return answer

    def anew(self) -> Update:
        """Translates each text as a whole."""

        def update(text: str, _finish: bool) -> str:
            answer = self.send("POST", "/translate", {"text": text, **_LANGUAGES})
            translation: str = answer["translations"][0]["text"]
            return translation

        return update

    def live(self, **options: Any) -> Update:
        """Updates a new session, which is deleted with its last text."""
        path = f"/live/{self.send('POST', '/live', _LANGUAGES | options)['id']}"

        def update(text: str, finish: bool) -> str:
            translation: str = self.send("POST", path, {"text": text, "finish": finish})[
                "translation"
            ]
            if finish:
                self.send("DELETE", path)
            return translation

        return update


def _growing(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yields the beginnings of a sentence, and whether each is complete."""
    words = sentence.split()
    for end in range(1, len(words) + 1):
        yield " ".join(words[:end]), end == len(words)


def _average_lagging(steps: Sequence[str], final: Sequence[str]) -> float:
    """Average lagging in source words; each step has one more."""
    stable, same = [0] * len(steps), len(final)
    for index in range(len(steps) - 1, -1, -1):
        same = stable[index] = min(same, common_length(steps[index].split(), final))
    reads = [
        next(i for i, known in enumerate(stable) if known > word) + 1 for word in range(len(final))
    ]
    # After the last source word there is no lag.
    counted = reads[: reads.index(len(steps)) + 1] if len(steps) in reads else reads
    rate = len(steps) / len(final)
    return statistics.mean(read - word * rate for word, read in enumerate(counted))


def _quality(caller: Caller, pairs: Sequence[tuple[str, ...]]) -> dict[str, Shown]:
    """Translate all sentences in each way."""
    shown = {name: Shown() for name in _WAYS}
    with progress(len(pairs)) as advance:
        for source, _ in pairs:
            for name, options in _WAYS.items():
                update = caller.anew() if options is None else caller.live(**options)
                shown[name].add([update(text, finish) for text, finish in _growing(source)])
            advance(_CORPUS)
    return shown


def _update_times_ms(url: str, sessions: int, texts: Sequence[str], seconds: int) -> list[float]:
    """The times of all updates, of sessions that send a word at a time at the pace of speech."""
    times_ms: list[float] = []

    def speak(first: int) -> None:
        caller = Caller(url)
        due_s = time.perf_counter() + first / sessions / _WORDS_PER_S
        end_s = due_s + seconds
        for text in texts[first::sessions]:
            update = caller.live()
            for part, finish in _growing(text):
                time.sleep(max(0.0, due_s - time.perf_counter()))
                begin_s = time.perf_counter()
                update(part, finish)
                times_ms.append(1000 * (time.perf_counter() - begin_s))
                due_s += 1 / _WORDS_PER_S
            if due_s > end_s:
                return

    threads = [threading.Thread(target=speak, args=(first,)) for first in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times_ms


@program(
    DATA_DIR,
    number("--sentences", 200),
    number("--sessions", 8, "at the same time"),
    number("--seconds", 60, "at the pace of speech"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    pairs = read_pairs(arguments.data_dir / _CORPUS / "train", ("en", "de"))
    chosen = pairs[:: max(1, len(pairs) // arguments.sentences)][: arguments.sentences]
    with serve() as server, run_gateway(server, "--cache-bytes=0") as (url, _):
        shown = _quality(Caller(url), chosen)
        times_ms = _update_times_ms(
            url, arguments.sessions, [src for src, _ in pairs], arguments.seconds
        )
    references = [[tgt for _, tgt in chosen]]
    rows = [
        [
            name,
            f"{of_way.flicker:.2f}",
            f"{statistics.mean(of_way.lags):.1f}",
            f"{sacrebleu.corpus_bleu(of_way.texts, references).score:.1f}",
        ]
        for name, of_way in shown.items()
    ]
    print(markdown_table(["", "flicker", "lag, words", "BLEU"], rows))
    percentiles = statistics.quantiles(times_ms, n=100)
    row = [str(arguments.sessions), *(f"{percentiles[p - 1]:.1f}" for p in (50, 95, 99))]
    print()
    print(markdown_table(["sessions", "50 %, ms", "95 %, ms", "99 %, ms"], [row]))
    return {"shown": {name: vars(of_way) for name, of_way in shown.items()}, "update_ms": times_ms}


if __name__ == "__main__":
    sys.exit(main())
