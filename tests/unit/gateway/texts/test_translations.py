"""Translation for callers: the cache, requests in flight, glossaries."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from dragoman_client import DeadlineExceeded, InvalidRequest, ServerUnavailable, Translation
from dragoman_documents.memory.pairs import Pair
from dragoman_gateway.core import errors
from dragoman_gateway.core.caller import ANONYMOUS, Caller, Limits
from dragoman_gateway.core.errors import InvalidInput, NotFound, TooLarge, Unavailable
from dragoman_gateway.glossaries.glossaries import Dictionary
from dragoman_gateway.glossaries.term_index import Terms
from dragoman_gateway.texts import server_status
from dragoman_gateway.texts.translations import Translations
from dragoman_options.option import Option
from dragoman_options.table import OPTIONS, SAMPLING, check, splits
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.gateway.texts.model_server import ModelServer, asked_of, translations_of
from tests.unit.gateway.texts.test_segmentation import TEXTS

TO_GERMAN = {"source_language": "en", "target_language": "de"}


def served(**settings: Any) -> tuple[ModelServer, Translations]:
    server = ModelServer()
    return server, translations_of(server, **settings)


async def ask(of: Translations, *texts: str, store: bool = True, **options: Any) -> list[str]:
    translations = await of.translate_admitted(
        ANONYMOUS, texts, {**TO_GERMAN, **options}, store=store
    )
    return [translation.text for translation in translations]


@given(
    st.lists(TEXTS, min_size=1, max_size=4),
    st.sampled_from(
        [
            *({}, {"beam_width": 2}, {"return_bundle": True}, {"split_sentences": False}),
            *({"glossary": {"you": "Sie", "there. How": "x"}}, {"source_language": "DE-at"}),
            *({"keep_placeholders": True}, {"return_confidence": False}),
        ]
    ),
)
@settings(max_examples=150)
async def test_the_answer_equals_the_servers(texts: list[str], options: dict[str, Any]) -> None:
    """This holds without cached sentences, with all of them, and with some of them cached."""
    server, of = served()
    given = {"source_language": "en", "target_language": "de", **options}
    if "DE" in given["source_language"]:
        given["target_language"] = "en"
    expected = await ModelServer().translate_checked(texts, check(given))
    await of.translate_admitted(ANONYMOUS, texts[:1], given)
    for _ in range(2):
        assert await of.translate_admitted(ANONYMOUS, texts, given) == expected
    before = len(server.asked)
    assert await of.translate_admitted(ANONYMOUS, texts, given) == expected
    assert len(server.asked) == before


async def test_only_uncached_sentences_are_sent() -> None:
    server, of = served()
    await ask(of, "Hello there. How are you?")
    await ask(of, "How are you?  Fine.", "Fine.")
    assert server.asked == [["Hello there.", "How are you?"], ["Fine."]]
    assert (of.cache_counts.hits, of.cache_counts.entries) == (1, 3)


@pytest.mark.parametrize("how", ["store", "caller", "bytes", "sampling", "markup"])
async def test_nothing_is_cached_if_caching_is_disabled(how: str) -> None:
    server, of = served(**{"cache_bytes": 0} if how == "bytes" else {})
    more: dict[str, Any] = {
        "sampling": {"temperature": 1.0},
        "markup": {"markup": {"codes": [[0, 5, None]]}},
    }
    options = {**TO_GERMAN, **more.get(how, {})}
    caller = Caller("a", caches=how != "caller")
    for _ in range(2):
        await of.translate_admitted(caller, ["Hello."], options, store=how != "store")
    assert len(server.asked) == 2
    assert of.cache_counts.entries == 0


async def test_seeded_samples_are_cached_as_whole_texts() -> None:
    server, of = served()
    for _ in range(2):
        await ask(of, "Hello. You.", seed=1)
    assert server.asked == [["Hello. You."]]


def values_of(option: Option) -> st.SearchStrategy[Any]:
    """Valid values of an option for the text "Hello there."."""
    words = st.text("ab,\"'|", min_size=1, max_size=3)
    if option.choices:
        return st.sampled_from(option.choices)
    if option.range is not None:
        least, most = option.range.least, option.range.most
        most = least + 50 if isinstance(most, str) else most
        if option.kind == "whole number":
            return st.integers(int(least), int(most))
        return st.floats(least, most, exclude_min=option.range.above)
    return {
        "text": words,
        "texts": st.lists(words, min_size=1, max_size=1),
        "terms": st.dictionaries(st.sampled_from(["Hello", "there"]), words),
        "switch": st.booleans(),
    }[option.kind]


def apart(options: dict[str, Any]) -> tuple[Any, ...]:
    """The part of a request that distinguishes its cache entries."""
    checked = check(options)
    return checked | {"split_sentences": None}, splits(checked)


@pytest.mark.parametrize(
    "name", sorted(OPTIONS.keys() - {"source_language", "target_language", "markup"})
)
@given(data=st.data())
@settings(max_examples=30)
async def test_every_option_of_the_table_distinguishes_entries(
    name: str, data: st.DataObject
) -> None:
    option = OPTIONS[name]
    others: dict[str, Any] = {}
    if option.only_with == "num_return_sequences":
        others["num_return_sequences"] = 2
    if name in SAMPLING:
        others["seed"] = 1  # otherwise nothing is kept
    values = st.one_of(st.none(), values_of(option))
    first, other = ({**others, name: data.draw(values)} for _ in range(2))
    assume(apart(first) != apart(other))

    server, of = served()
    for options in (first, other, first, other):
        await of.translate_admitted(ANONYMOUS, ["Hello there."], TO_GERMAN | options)
    # Every entry contains the identity of the bundle.
    assert len(server.asked) == (1 if name == "return_bundle" else 2)


async def test_directions_distinguish_entries() -> None:
    server, of = served()
    for source, target in (("en", "de"), ("de", "en")) * 2:
        await ask(of, "Hello there.", source_language=source, target_language=target)
    assert len(server.asked) == 2


async def test_terms_that_do_not_occur_change_nothing() -> None:
    server, of = served()
    await ask(of, "Hello there.", glossary={"tea": "Tee"})
    assert "glossary" not in asked_of(server).options
    await ask(of, "Hello there.", glossary={"pot": "Topf"})
    assert len(server.asked) == 1


async def test_terms_in_long_words_are_sent_only_if_the_server_may_cut_the_word() -> None:
    server, of = served()
    text = 12 * "cups" + "tea"  # at least 3 bytes a token
    for tokens, is_sent in ((254, False), (16, True)):
        server.limits["sentence_tokens"] = tokens
        of._server.forget()
        await ask(of, text, glossary={"tea": "Tee"})
        assert ("glossary" in asked_of(server).options) is is_sent


async def test_no_stale_answer_is_given_after_a_model_swap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, of = served()
    await ask(of, "Hello.")
    monkeypatch.setattr(server_status, "_CONFIRMED_S", 0.0)
    server.bundle = "c" * 64
    (translation,) = await of.translate_admitted(
        ANONYMOUS, ["Hello."], {**TO_GERMAN, "return_bundle": True}
    )
    assert translation.bundle == "c" * 64


@pytest.mark.parametrize("replaced", [False, True])
async def test_an_answer_through_a_pivot_is_cached_if_both_models_are_known(replaced: bool) -> None:
    class Pivoted(ModelServer):
        async def translate_checked(
            self, texts: Sequence[str], options: Mapping[str, Any]
        ) -> list[Translation]:
            other = "c" * 64 if replaced else self.bundle
            translations = await super().translate_checked(texts, options)
            return [
                replace(translation, bundle=f"{self.bundle},{other}", via="en")
                for translation in translations
            ]

    server = Pivoted()
    of = translations_of(server)
    for _ in range(2):
        translations = await of.translate_admitted(ANONYMOUS, ["One. Two."], TO_GERMAN)
        assert [translation.via for translation in translations] == ["en"]
    assert len(server.asked) == 1 + replaced


async def test_an_answer_of_an_unexpected_model_is_not_cached() -> None:
    server, of = served()
    await ask(of, "Hello.")
    server.bundle = "c" * 64  # within the time in which the earlier one is assumed
    await ask(of, "Good morning.")
    assert of.cache_counts.entries == 1
    await ask(of, "Hello.")
    assert len(server.asked) == 3


async def test_without_the_server_nothing_is_answered_from_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, of = served()
    await ask(of, "Hello.")
    monkeypatch.setattr(server_status, "_CONFIRMED_S", 0.0)

    async def away() -> None:
        raise ServerUnavailable("away")

    server.info = away  # type: ignore[method-assign,assignment]
    with pytest.raises(Unavailable):
        await ask(of, "Hello.")
    assert (await of.info()).languages == ("en", "de")


async def test_identical_requests_are_answered_once() -> None:
    server, of = served()
    await of.info()
    server.let_go.clear()
    tasks = [asyncio.create_task(ask(of, "Hello.")) for _ in range(5)]
    tasks.append(asyncio.create_task(ask(of, "Hello. Bye.")))
    await until(lambda: len(server.texts) == 2)
    server.let_go.set()
    answers = await asyncio.gather(*tasks)
    assert server.texts == ["Hello.", "Bye."]
    assert of.cache_counts.shared == 5
    assert answers[:5] == [answers[0]] * 5
    assert answers[5][0].startswith(answers[0][0])


async def test_a_shared_request_is_cancelled_with_its_last_waiter() -> None:
    server, of = served()
    await of.info()
    server.let_go.clear()
    tasks = [asyncio.create_task(ask(of, "Hello.")) for _ in range(3)]
    await until(lambda: len(server.asked) == 1)
    for left, task in enumerate(tasks, start=1):
        assert server.cancelled == 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.01)
        assert server.cancelled == (left == len(tasks))
    server.let_go.set()
    assert await ask(of, "Hello.")
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (DeadlineExceeded("late"), Exception),  # of an earlier deadline
        (InvalidRequest("glossary: the term 'secret of another' is refused"), InvalidInput),
    ],
)
async def test_a_request_is_sent_again_if_the_shared_one_failed(
    failure: Exception, kind: type[Exception]
) -> None:
    """A refusal may name what only the other caller may see."""
    server, of = served()
    await of.info()
    server.let_go.clear()
    server.failing = [failure]
    tasks = [asyncio.create_task(ask(of, "Hello.")) for _ in range(2)]
    await until(lambda: len(server.asked) == 1)
    server.let_go.set()
    first, second = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, kind)
    assert not isinstance(second, BaseException)
    assert len(server.asked) == 2


async def test_a_text_that_is_refused_is_named_by_its_own_number() -> None:
    _, of = served()
    await ask(of, "Hello.")
    with pytest.raises(InvalidInput, match=r"^text 2 is refused"):
        await ask(of, "Hello.", "One. Two. Three.", "This is refused.")
    with pytest.raises(InvalidInput, match=r"^text 0 is refused"):
        await ask(of, "Short. " * 1000)  # too long as a text, not as sentences


async def test_the_language_is_detected_as_the_server_does() -> None:
    server, of = served()
    for _ in range(2):
        translations = await of.translate_admitted(
            ANONYMOUS, ["How are you, my old friend?", " "], {"source_language": "auto"}
        )
    assert (translations[0].detected_language, translations[1].detected_language) == (
        "en",
        None,
    )
    assert 0.5 < (translations[0].detected_probability or 0) <= 1
    assert translations[1].detected_probability == 0.0
    assert server.texts == ["How are you, my old friend?", " "]


@pytest.mark.parametrize("store", [True, False])
async def test_all_parts_of_a_request_share_one_deadline(store: bool) -> None:
    server, of = served(timeout_s=0.05)
    server.failing = [ServerUnavailable("not there")] * 5  # each retry alone is in time
    with pytest.raises(errors.DeadlineExceeded, match=r"no answer within 0.05 s"):
        await ask(of, "Hello.", store=store)
    server.failing = []
    server.let_go.clear()
    with pytest.raises(errors.DeadlineExceeded):
        await ask(of, "Hello.", "Fine.", store=store)
    await asyncio.sleep(0.01)
    assert server.cancelled == 1
    server.let_go.set()
    assert len(await ask(of, "Hello.", store=store)) == 1


async def test_a_language_that_is_not_served_is_improbable() -> None:
    _, of = served()
    english = await of.detect("How are you, my old friend?")
    assert (english.language, english.probability > 0.5) == ("en", True)
    for text in ("¿Cómo está usted, mi viejo amigo?", "Как дела, мой старый друг?"):
        other = await of.detect(text)
        assert other.language in ("en", "de")
        assert other.probability < 0.05


async def test_the_terms_of_glossaries_that_occur_are_sent() -> None:
    server, of = served()
    store = of._glossaries
    many = {f"word{number}": "x" for number in range(20_000)}
    terms = {"tea": "Tee", **many}
    first = await store.create(ANONYMOUS, "a", [Dictionary("EN", "de", terms, len(terms))])
    later = {"TEA": "b", "pot": "Topf"}
    second = await store.create(ANONYMOUS, "b", [Dictionary("en", "de", later, 2)])
    ids = [first.id, second.id]
    await ask(of, "A pot of tea. Hello there.", glossary_ids=ids)
    assert asked_of(server).options["glossary"] == {"tea": "Tee", "pot": "Topf"}
    await ask(of, "More tea.", glossary_ids=ids[::-1], source_language="auto")
    assert asked_of(server).options["glossary"] == {"TEA": "b"}
    await ask(of, "Even more tea.", glossary_ids=ids, glossary={"Tea": "own"}, store=False)
    assert asked_of(server).options["glossary"] == {"Tea": "own"}
    await store.put(ANONYMOUS, first.id, Dictionary("en", "de", {"tea": "C"}, 1))
    await store.put(ANONYMOUS, first.id, Dictionary("EN", "de", {"tea": "D"}, 1))
    await ask(of, "More tea.", glossary_ids=ids[:1])
    assert asked_of(server).options["glossary"]["tea"] in "CD"
    with pytest.raises(InvalidInput, match="has no dictionary from de into en"):
        await ask(of, "Tee", glossary_ids=ids, source_language="de", target_language="en")
    with pytest.raises(InvalidInput, match="glossary: not with"):
        await ask(of, "no term", glossary_ids=ids, temperature=1.0)
    with pytest.raises(NotFound):
        await of.translate_admitted(Caller("k", "k"), ["tea"], {**TO_GERMAN, "glossary_ids": ids})


async def test_too_many_terms_for_one_request_are_sent_in_several() -> None:
    server, of = served()
    terms = {f"{number:x}y": "x" for number in range(1500)}
    stored = await of._glossaries.create(ANONYMOUS, "a", [Dictionary("en", "de", terms, 1500)])
    halves = [
        "And " + " ".join(f"{number:x}y" for number in part) + "."
        for part in (range(700), range(700, 1400))
    ]
    for store in (True, False):
        await ask(of, *halves, glossary_ids=[stored.id], store=store)
    assert [len(options["glossary"]) for options in server.options] == [700, 700] * 2
    text = " ".join(f"{number:x}y" for number in range(1010))
    with pytest.raises(InvalidInput, match="1,010 terms occur in one text"):
        await ask(of, text, glossary_ids=[stored.id], store=False)


@pytest.mark.parametrize("store", [True, False])
async def test_too_many_texts_are_refused_before_any_work(store: bool) -> None:
    server, of = served()
    with pytest.raises(TooLarge, match="20,001 texts: send up to 20,000"):
        await of.translate(ANONYMOUS, [""] * 20_001, TO_GERMAN, store=store)
    with pytest.raises(TooLarge):
        await ask(of, *[""] * 20_001, store=store)
    with pytest.raises(TooLarge):
        await of.score(ANONYMOUS, [""] * 20_001, [""] * 20_001, TO_GERMAN)
    assert (server.asked, server.informed) == ([], 0)


async def test_too_many_glossaries_are_refused() -> None:
    _, of = served()
    with pytest.raises(InvalidInput, match="21 ids: give at most 20"):
        await ask(of, "Hello.", glossary_ids=["a"] * 21)


async def test_a_long_text_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    occurring = Terms.occurring

    def noted(self: Terms, text: str, uncut_bytes: int) -> dict[str, str]:
        threads.add(threading.current_thread())
        return occurring(self, text, uncut_bytes)

    monkeypatch.setattr(Terms, "occurring", noted)

    _, of = served()
    await ask(of, "x" * 4000)
    assert threads
    assert threading.main_thread() not in threads


async def test_given_translations_count_as_texts() -> None:
    _, of = served()
    caller = Caller("a", "a", Limits(characters_per_request=10))
    with pytest.raises(TooLarge):
        await of.score(caller, ["12345"], ["123456"], TO_GERMAN)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the conditions have no event
            await asyncio.sleep(0)


@pytest.mark.parametrize("languages", [("en", "de"), ("de", "en")])
async def test_texts_that_a_memory_lacks_are_translated_in_its_direction(
    languages: tuple[str, str],
) -> None:
    server, of = served()
    memory = await of._memories.create(ANONYMOUS, "a", languages)
    parts = [[Pair("Stored.", "Gespeichert.")], []]
    await of._memories.add(ANONYMOUS, memory.id, lambda: asyncio.sleep(0, parts.pop(0)))
    for named in ({}, dict(zip(("source_language", "target_language"), languages, strict=True))):
        options = {**named, "memory_id": memory.id}
        stored, _ = await of.translate_admitted(ANONYMOUS, ["Stored.", "Missing."], options)
        sent = asked_of(server).options
        assert stored.text == "Gespeichert."
        assert (sent["source_language"], sent["target_language"]) == languages
    await of._memories.close()
