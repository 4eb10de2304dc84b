"""What a text has to keep is in its translation: literals, numbers, terms."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from typing import Any

import pytest
from dragoman_serving.engine.errors import Overloaded
from dragoman_serving.engine.futures import Future
from dragoman_serving.fidelity.literals import Literal
from dragoman_serving.fidelity.measures import has_unit
from dragoman_serving.fidelity.reading import Reading
from dragoman_serving.scoring.scorer import Scorer
from dragoman_serving.translation.corrections import Corrections
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.hypothesis import Hypothesis


def translated(shipped: Translator, text: str, **options: Any) -> Translation:
    languages = {"source_language": "en", "target_language": "de", "beam_width": 4}
    return shipped.translate([text], {**languages, **options})[0]


@pytest.mark.parametrize("beam_width", [1, 4])
@pytest.mark.parametrize(
    ("text", "literals"),
    [
        ("{user} invited you to {team}.", ["{user}", "{team}"]),
        ("%1$s sent %2$s to %3$s.", ["%1$s", "%2$s", "%3$s"]),
        ("See https://old.example.org, now https://new.example.org.", ["//old", "//new"]),
        ("Mail anna@example.org or tom@example.org.", ["anna@example.org", "tom@example.org"]),
        ("Good morning ☀️ my friend 👍🏽!", ["☀️", "👍🏽"]),
        ("The word 你好 means hello, мир means peace.", ["你好", "мир"]),
        ("Add 2¼ cups to 10² bowls.", ["2¼", "10²"]),
        ("Order A-2024-00017 is ready.", ["A-2024-00017"]),
        ("I love cats :heart: and dogs :smile:", [" :heart:", " :smile:"]),
    ],
)
def test_literals_are_in_the_translation_once_and_in_order(
    shipped: Translator, text: str, literals: list[str], beam_width: int
) -> None:
    translation = translated(shipped, text, beam_width=beam_width)
    assert translation.warnings == ()
    assert translation.text != text
    places = [translation.text.find(literal) for literal in literals]
    assert -1 not in places
    assert places == sorted(places)
    assert all(translation.text.count(literal) == 1 for literal in literals)


@pytest.mark.parametrize("placeholder", ["{count}", "%d", "{{n}}", "%(total)s", "${num}", "#"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{} files deleted", "{} Dateien gelöscht"),
        ("You have {} new messages.", "{} neue Nachrichten"),
        ("{} minutes ago", "{} Minuten"),
    ],
)
def test_words_beside_a_placeholder_of_a_number_are_those_beside_a_number(
    shipped: Translator, text: str, expected: str, placeholder: str
) -> None:
    text = text.replace("{}", placeholder)
    if placeholder == "#":
        text = f"{{n, plural, other {{{text}}}}}"
    assert expected.replace("{}", placeholder) in translated(shipped, text).text


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("Это русский текст.", ("untranslated",)),
        ("{name} https://a.org/b 😀", ()),
        ("<b>{name}</b>", ()),
        ("10 000", ()),
    ],
)
def test_a_text_without_words_that_the_model_reads_stays(
    shipped: Translator, text: str, warnings: tuple[str, ...]
) -> None:
    translation = translated(shipped, text)
    assert (translation.text, translation.warnings) == (text, warnings)


def test_alternatives_and_streams_have_literals_too(shipped: Translator) -> None:
    text = "Hello {name}, good morning ☀️."
    best = translated(shipped, text, num_return_sequences=3)
    for translation in (best, *best.others):
        assert "{name}" in translation.text
        assert "☀️" in translation.text
    assert "{name}" in translated(shipped, text, prefix="Hallo {name}").text
    stream = shipped.stream(text, {"source_language": "en", "target_language": "de"}, lambda: None)
    assert "{name}" in stream.future.result()[0].text


def test_literals_survive_a_model_that_loses_every_stand_in(
    shipped: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reading, "is_in", lambda *_: False)
    translation = translated(shipped, "Hello {a}, your order {b} is ready.").text
    assert Counter(translation)["{"] == 2
    assert translation.index("{a}") < translation.index("{b}")
    assert "Hallo" in translation
    best = translated(shipped, "Hello {a}, is {b} ready?", num_return_sequences=3)
    assert len(best.others) == 2


TEXTS_WITH_SIGNS = [
    ("en", "Good morning 🎉 my friend 👩🏽‍💻, how are you ♪?"),
    ("en", "The sign § and the word мир are {here}, aren't they?"),
    ("de", "Das Zeichen ≤ steht ★ in der Nähe von 🚲 und nicht hier."),
    ("fr", "Le mot 你好 est ici ☀️ et là-bas 👍🏽, mon ami."),
]
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {"beam_width": 1},
    "list": {"num_return_sequences": 4},
    "samples": {"beam_width": 1, "temperature": 1.2, "seed": 5, "num_return_sequences": 4},
    "prefix": {"prefix": "Der"},
    "alternatives": {"return_alternatives": True, "num_return_sequences": 4},
    "unsplit": {"split_sentences": False},
}


def literals_of(shipped: Translator, text: str, language: str) -> list[str]:
    return [text[slice(*literal.span)] for literal in shipped._texts.literals.of(text, language)]


@pytest.mark.parametrize(("language", "text"), TEXTS_WITH_SIGNS)
@pytest.mark.parametrize("name", OPTIONS)
def test_no_interface_loses_a_literal(
    shipped: Translator, name: str, language: str, text: str
) -> None:
    target = "de" if language == "en" else "en"
    best = translated(
        shipped, text, source_language=language, target_language=target, **OPTIONS[name]
    )
    for translation in (best, *best.others):
        for literal in literals_of(shipped, text, language):
            assert translation.text.count(literal) >= 1, translation.text
            assert translation.text.count(literal) == 1 or literal == "{here}", translation.text


@pytest.mark.parametrize(("language", "text"), TEXTS_WITH_SIGNS)
def test_no_literal_is_lost_if_nothing_can_be_searched_or_aligned(
    shipped: Translator, monkeypatch: pytest.MonkeyPatch, language: str, text: str
) -> None:
    def refuse(*_: Any) -> Any:
        raise Overloaded("many are waiting", 1.0)

    target = "de" if language == "en" else "en"
    options = {"source_language": language, "target_language": target, "beam_width": 1}
    reading = shipped._texts.pieces([text], range(1), shipped.plan(options, 1))[0].sentences[0]
    written = "ein Satz ohne alle Zeichen und Wörter, der zu kurz ist."
    plan = shipped.plan(options, 1)
    corrections = Corrections(
        plan, shipped._tokenizer, refuse, shipped._scorer, None, shipped._texts.stand_ins
    )
    monkeypatch.setattr(Scorer, "submit", refuse)
    free: Future[Hypothesis] = Future()
    free.set_result(Hypothesis(tuple(shipped._tokenizer.encode(written)), -1.0, complete=True))
    corrected = corrections.follow(reading, free).result(timeout=0)
    restored = reading.restored(shipped._tokenizer.decode(corrected.ids)).text
    for literal in reading.reading.targets:
        assert restored.count(literal) == 1, restored


def test_a_text_with_every_usual_stand_in_keeps_its_signs(shipped: Translator) -> None:
    text = "X1 and Q1 and Z1 and #1 and [1] are 🎉 my friends 👍🏽 * ~ # ^ ♪ today."
    translation = translated(shipped, text)
    assert all(translation.text.count(sign) == 1 for sign in "🎉♪")
    assert "👍🏽" in translation.text


@pytest.mark.parametrize(
    "options",
    [{}, {"num_return_sequences": 4}, {"repair": False, "keep_placeholders": False}],
    ids=str,
)
def test_bytes_that_form_no_character_are_not_in_a_translation(
    shipped: Translator, options: dict[str, Any]
) -> None:
    text = "Chitashka Xish and Mrs. Hokaxi are here."
    best = translated(shipped, text, beam_width=1 if "repair" in options else 4, **options)
    assert all("\ufffd" not in translation.text for translation in (best, *best.others))
    if not options:
        assert "Chitashka Xish" in best.text
        assert best.warnings == ()
    elif "repair" in options:
        assert best.warnings == ("signs",)
    stream = shipped.stream(text, {"source_language": "en", "target_language": "de"}, lambda: None)
    assert "\ufffd" not in stream.future.result()[0].text


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("en", "fr"), ("fr", "en")])
@pytest.mark.parametrize("name", ["Kuno", "Ilsabet", "Vierzon", "Kaltech", "Debrecen"])
def test_rare_names_stay(shipped: Translator, source: str, target: str, name: str) -> None:
    frames = {"en": "{} is not here today.", "fr": "Nous avons vu {} hier."}
    languages = {"source_language": source, "target_language": target}
    (translation,) = shipped.translate([frames[source].format(name)], languages)
    assert name in translation.text
    assert translation.warnings == ()


@pytest.mark.parametrize("target", ["de", "fr"])
@pytest.mark.parametrize("name", ["Scotland", "Greece", "Germany", "Switzerland"])
def test_names_that_languages_write_differently_are_translated(
    shipped: Translator, name: str, target: str
) -> None:
    languages = {"source_language": "en", "target_language": target}
    (translation,) = shipped.translate([f"We live in {name}."], languages)
    assert name not in translation.text


def test_a_term_of_the_glossary_is_no_name(shipped: Translator) -> None:
    best = translated(shipped, "Kuno is here.", glossary={"Kuno": "Konrad"})
    assert "Konrad" in best.text
    assert "Kuno" not in best.text


def test_letters_with_separate_accents_are_letters(shipped: Translator) -> None:
    text = "Die schönen Häuser müssen größer werden."
    translations = [
        translated(shipped, spelling, source_language="de", target_language="en").text
        for spelling in (text, unicodedata.normalize("NFD", text))
    ]
    assert translations[0] == translations[1]


def test_a_number_after_the_prefix_is_a_word_of_its_own(shipped: Translator) -> None:
    text = "My name is Mrs. Miller and I need 3.5 kilos of 20 apples by 14:30, please."
    prefix = "Ich heiße Frau Miller und ich brauche 3,5 Kilo von 20 Äpfel "
    assert translated(shipped, text, prefix=prefix).text.startswith(f"{prefix}14:30")


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("Kuno bought 12 apples for €3.50.", ["3,50"]),
        ("Milk costs €1.99 and bread £2.49 ☺.", ["1,99", "2,49"]),
        ("The bag for $30.25 weighs 3.5 kg.", ["30,25", "3,5"]),
        ("Python 3.11 needs 2.5 GB.", ["3.11", "2,5"]),
    ],
)
def test_amounts_have_the_decimal_point_of_the_language(
    shipped: Translator, text: str, amounts: list[str]
) -> None:
    for target in ("de", "fr"):
        written = translated(shipped, text, target_language=target).text
        assert re.findall(r"\d+[.,]\d+", written) == amounts


@pytest.mark.parametrize("text", ["Add {} of water.", "It grew {} last year.", "Only {} are left."])
@pytest.mark.parametrize("unit", ["kg", "km", "mm", "kWh", "V", "ml"])
@pytest.mark.parametrize("target", ["de", "fr"])
def test_units_stay(shipped: Translator, text: str, unit: str, target: str) -> None:
    translation = translated(shipped, text.format(f"45 {unit}"), target_language=target)
    assert has_unit(translation.text, unit)
    assert unit.swapcase() not in translation.text
    assert not translation.warnings


@pytest.mark.parametrize(
    ("text", "languages", "phrases"),
    [
        ("Less than 651 people came.", "en-fr", ["Moins de 651"]),
        ("At most 6 of them came.", "en-de", ["höchstens 6"]),
        ("Höchstens 8 von ihnen kamen.", "de-en", ["At most 8"]),
        ("Moins de 664 personnes sont venues.", "fr-en", ["Less than 664"]),
        ("On Friday we go home; on Sunday we stay.", "en-fr", ["endredi", "dimanche"]),
        ("It is closed from Thursday to Tuesday in March.", "en-de", ["Donn", "Dienst", "März"]),
        ("Not valid after 31 Dec 2025.", "en-de", ["31. Dezember 2025"]),
        ("It is open from Mon. to Fri.", "en-de", ["Montag ", "Freitag"]),
        ("Look at No. 310 in the list.", "en-de", ["Nr. 310"]),
        ("No. 1 in the U.S.; no. 2 in the U.K.", "en-de", ["Nr. 1", "Nr. 2"]),
        ("Siehe Abb. 11 auf S. 280.", "de-en", ["Fig. 11", "p. 280."]),
        ("En 598 av. J.-C., il vivait là.", "fr-en", ["598 BC,"]),
        ("The 23rd century was cold.", "en-de", ["23. Jahrhundert"]),
        ("at most 2,045,278 people came to the party.", "en-de", ["öchstens 2.045.278"]),
        ("The men were harmless.", "en-de", ["harmlos"]),
        ("Wir sprachen gestern über Hilflosigkeit.", "de-en", ["helplessness"]),
        ("Die Männer waren unbezahlt.", "de-en", ["were unpaid."]),
        ("The shop is not closed on Good Friday.", "en-fr", ["n'est pas", "vendredi saint"]),
        ("He is not homeless.", "en-de", ["nicht obdachlos"]),
        ("Die Preise sind um 5 Prozent gesunken.", "de-en", ["fallen by 5 percent"]),
        ("Sales decreased by 5 percent.", "en-de", ["fiel"]),
        ("Le chômage recule de 5 %.", "fr-en", ["decreases"]),
        ("There was a deficit of 3 million.", "en-de", ["Defizit von 3 Millionen"]),
        ("There are too few doctors.", "en-fr", ["trop peu"]),
        ("The tenant pays the landlord.", "en-de", ["Mieter", "Vermieter"]),
        ("The lenders met the borrowers.", "en-fr", ["prêteurs", "emprunteurs"]),
        ("Der Kläger traf den Gläubiger.", "de-en", ["plaintiff", "creditor"]),
        ("L'expéditeur connaît le destinataire.", "fr-en", ["sender", "recipient"]),
        ("You can add up to 5 users.", "en-fr", ["jusqu'à 5"]),
        ("Shipping is free on orders over $50.", "en-fr", ["plus de $50"]),
        ("Send it no later than Friday.", "en-fr", ["au plus tard"]),
        ("It must be paid no later than 30 days after delivery.", "en-de", ["30 Tagen nach"]),
        ("Do not use it unless you are an adult.", "en-de", ["nicht", "außer wenn"]),
        ("Prices include tax unless otherwise stated.", "en-de", ["wenn nicht"]),
        ("Les bailleurs de fonds ont accepté.", "fr-en", ["funder"]),
        ("It is extended unless you cancel at least a week before.", "en-fr", ["sauf s"]),
        ("Niemand darf hinein, es sei denn, er hat eine Karte.", "de-en", ["except"]),
        ("Der Wert muss kleiner oder gleich 10 sein.", "de-en", ["or equal to 10"]),
        ("Do not freeze the vaccine.", "en-de", ["nicht einfrieren"]),
        ("Keep it out of the reach of children.", "en-de", ["Reichweite von Kindern"]),
    ],
)
def test_phrases_stay(shipped: Translator, text: str, languages: str, phrases: list[str]) -> None:
    source, target = languages.split("-")
    translation = translated(shipped, text, source_language=source, target_language=target)
    assert [phrase for phrase in phrases if phrase not in translation.text] == [], translation.text


def test_a_phrase_also_replaces_a_negation_that_the_sentence_does_not_have(
    shipped: Translator,
) -> None:
    translation = translated(shipped, "This is a harmless plant.", target_language="fr")
    assert translation.text.endswith(" inoffensif.")
    assert "sans" not in translation.text


def test_a_term_of_the_glossary_is_no_phrase(shipped: Translator) -> None:
    text = "On Monday we meet a friend of my sister."
    translation = translated(shipped, text, glossary='{"Monday": "Wochenanfang"}')
    assert "Wochenanfang" in translation.text
    assert "ontag" not in translation.text
    assert translation.warnings == ()


def test_a_phrase_that_cannot_be_written_has_a_warning(
    shipped: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Overloaded("full")

    monkeypatch.setattr(Scorer, "submit", refuse)
    text = "On Friday we go home; on Sunday we stay."
    translation = translated(shipped, text, target_language="fr")
    assert "endredi" not in translation.text
    assert translation.warnings == ("phrases",)


def test_an_identifier_with_further_digits_is_lost(shipped: Translator) -> None:
    assert "CVE-2001-6988 " in translated(shipped, "Order CVE-2001-6988 is ready.").text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Please delete the commit a4c123b.", "a4c123b"),
        ("The password j8thzq77 is not valid.", "j8thzq77"),
        ("Your code is kDsZemkpwGS", "kDsZemkpwGS"),
        ("Class org.example.Main not found", "org.example.Main"),
        ('A 10" pizza', '10"'),
        ("a 4' x 8' sheet", "4' x 8'"),
    ],
)
def test_codes_names_of_programs_and_inches_stay(shipped: Translator, text: str, kept: str) -> None:
    for target in ("de", "fr"):
        translation = translated(shipped, text, target_language=target)
        assert kept in translation.text
        assert not translation.warnings


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("{0} file(s) deleted", "de", "{0} Dateien gelöscht"),
        ("{n} error(s), {m} warning(s)", "de", "{n} Fehler, {m} Warnungen"),
        ("Delete {0} user(s)?", "fr", "Supprimer {0} utilisateurs ?"),
    ],
)
def test_words_for_one_or_several_are_plurals(
    shipped: Translator, text: str, target: str, expected: str
) -> None:
    assert translated(shipped, text, target_language=target).text == expected
    glossary = '{"file": "Akte", "error": "Panne", "user": "Nutzer"}'
    translation = translated(shipped, text, target_language=target, glossary=glossary)
    assert "terms" not in translation.warnings


def test_letters_of_references_stay(shipped: Translator) -> None:
    text = "The paragraphs 5(a), (b) and 7(c)(ii) and point (f) of the law are now different."
    for target in ("de", "fr"):
        written = translated(shipped, text, target_language=target).text
        assert all(f"{letter})" in written for letter in ("a", "b", "c", "ii", "f")), written


def test_words_in_brackets_stay(shipped: Translator) -> None:
    assert "[last]" in translated(shipped, "Please wait [last] seconds...").text


def test_no_stand_in_is_a_term_or_in_the_prefix(shipped: Translator) -> None:
    text = "I saw the dog and {name}."
    translation = translated(shipped, text, glossary='{"dog": "X1"}').text
    assert "X1" in translation
    assert "{name}" in translation
    prefix = "Ich mag 😃"
    assert translated(shipped, "I like 😀 and 😃.", prefix=prefix).text.startswith(prefix)


def test_codes_in_a_sentence_in_capitals_are_no_losses(shipped: Translator) -> None:
    assert translated(shipped, "COVID-19 IS A VERY BAD DISEASE.").warnings == ()


@pytest.mark.parametrize(
    ("source_language", "text", "name"),
    [
        ("en", "Mr. Çelik is here.", "Çelik"),
        ("en", "Go to Malmö and Tromsø.", "Malmö"),
        ("de", "Er wohnt in Besançon.", "Besançon"),
        ("fr", "Gößweinstein est une ville.", "Gößweinstein"),
    ],
)
def test_names_with_letters_of_other_languages_are_kept(
    shipped: Translator, source_language: str, text: str, name: str
) -> None:
    target = "de" if source_language == "en" else "en"
    translation = translated(shipped, text, source_language=source_language, target_language=target)
    assert name in translation.text
    assert translation.warnings == ()


def test_a_cafe_without_its_accent_is_no_loss(shipped: Translator) -> None:
    translation = translated(
        shipped, "Das Café ist zu.", source_language="de", target_language="en"
    )
    assert "cafe" in translation.text.replace("é", "e").casefold()
    assert translation.warnings == ()


def test_the_beginning_of_an_image_keeps_its_spaces(shipped: Translator) -> None:
    text = translated(shipped, "Open ![the big door](images/door.png) now.").text
    assert " ![" in text
    assert "![ " not in text


def test_no_number_is_added(shipped: Translator) -> None:
    text = "At 2pm two police vans were inside the cordon with another van just outside."
    assert "21" not in translated(shipped, text).text


def test_the_beginning_of_a_large_number_is_not_repeated(shipped: Translator) -> None:
    text = "En 2006, il y avait 1 198 930 personnes dans la ville, aujourd'hui il y en a 2 364 255."
    languages = {"source_language": "fr", "target_language": "en"}
    written = translated(shipped, text, **languages).text
    assert re.findall(r"\d[\d,]*\d", written) == ["2006", "1,198,930", "2,364,255"]


def test_a_stand_in_that_is_repeated_is_a_literal_each_time(shipped: Translator) -> None:
    reading = Reading.of("See {a}", [Literal(4, 7)], shipped._texts.stand_ins)
    (stand_in,) = reading.stand_ins
    assert reading.restored(f"{stand_in} und {stand_in}").text == "{a} und {a}"


@pytest.mark.parametrize(
    "text", ["{count, plural, one {# cat} other {# cats}}", "You have {n, select, other {a cat}}."]
)
def test_only_the_branches_of_messages_are_translated(shipped: Translator, text: str) -> None:
    translation = translated(shipped, text).text
    assert "cat" not in translation
    assert translation.count("{") == text.count("{")
    assert "other {" in translation


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("This is about 1.1% more than it spends now.", ["1.1", "1,1"]),
        ("Perhaps they are from 4.5 billion years ago.", ["4.5", "4,5"]),
        ("There were 244890 people in the town.", ["244890"]),
        ("It costs 26,750 dollars.", ["26.750"]),
    ],
)
def test_numbers_are_equal(shipped: Translator, text: str, numbers: list[str]) -> None:
    translation = translated(shipped, text)
    assert any(number in translation.text for number in numbers)
    assert translation.warnings == ()


def test_a_number_that_cannot_be_kept_has_a_warning(
    shipped: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "It takes 3 to 5 days, 7 to 10 in 2027."
    monkeypatch.setattr(Corrections, "_searched", lambda *_: None)
    by_alignment = translated(shipped, text)
    assert {"10", "2027"} < set(re.findall(r"\d+", by_alignment.text))
    assert by_alignment.warnings == ()
    monkeypatch.setattr(Corrections, "_aligned", lambda _, __, hypothesis, *___: hypothesis)
    assert translated(shipped, text).warnings == ("numbers",)
    without = translated(shipped, text, keep_placeholders=False)
    assert without.warnings == ()


def test_a_term_that_cannot_be_placed_has_a_warning(
    shipped: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    glossary = json.dumps({"house": "Bude"})
    assert translated(shipped, "The house is big.", glossary=glossary).warnings == ()
    monkeypatch.setattr(
        Corrections, "_aligned", lambda _self, _sentence, hypothesis, *_: hypothesis
    )
    lacking = translated(shipped, "The house is big.", glossary=glossary)
    assert "Bude" not in lacking.text
    assert lacking.warnings == ("terms",)


@pytest.mark.parametrize("aligns", [True, False])
@pytest.mark.parametrize(
    ("text", "glossary", "terms", "not_found"),
    [
        ("The house is big.", {"house": "Bude"}, ["Bude"], "Haus"),
        ("House", {"house": "Bude"}, ["Bude"], "House"),
        (
            "The house https://a.org/house is big.",
            {"house": "Bude"},
            ["Bude", "a.org/house"],
            "Haus",
        ),
        ("Red is my colour.", {"red": "karmesin"}, ["Karmesin"], "Rot"),
        (
            "The client and the provider meet the client.",
            {"client": "Auftraggeber", "provider": "Auftragnehmer"},
            ["Auftraggeber", "Auftragnehmer", "Auftraggeber"],
            "Anbieter",
        ),
        ("Acme sells tea.", {"Acme": "Acme™"}, ["Acme™"], "TM"),
        ("Use C++ and C# now.", {"C++": "Ada", "C#": "Logo"}, ["Ada", "Logo"], "+"),
        ("Use .NET here.", {".NET": "Java"}, ["Java"], ".Java"),
        ("Node.js is good.", {"Node.js": "Knoten"}, ["Knoten"], "Node"),
        ("COVID-19 is bad.", {"COVID-19": "Corona"}, ["Corona"], "19"),
    ],
)
def test_terms_stand_in_place_of_the_usual_words(
    shipped: Translator,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    glossary: dict[str, str],
    terms: list[str],
    not_found: str,
    aligns: bool,
) -> None:
    """Also without alignment heads."""
    real = Corrections.__init__

    def without_heads(self: Corrections, *arguments: Any) -> None:
        real(self, *arguments)
        self._aligns = aligns

    monkeypatch.setattr(Corrections, "__init__", without_heads)
    translation = translated(shipped, text, glossary=json.dumps(glossary))
    said = translation.text
    assert translation.warnings == ()
    at = 0
    for term in terms:
        at = said.index(term, at) + len(term)
    assert not_found not in said


@pytest.mark.parametrize("word", ["Door", "House", "No", "Water"])
def test_commas_between_terms_stay(shipped: Translator, word: str) -> None:
    """Also if the model repeats the word less often."""
    text, glossary = f"{word}, {word.lower()}, {word.lower()}!", {word.lower(): "Pforte"}
    said = translated(shipped, text, glossary=json.dumps(glossary)).text
    assert said == "Pforte, Pforte, Pforte!"


def test_every_alternative_has_the_terms(shipped: Translator) -> None:
    best = translated(
        shipped, "The house is big.", glossary='{"house": "Bude"}', num_return_sequences=3
    )
    assert all("Bude" in translation.text for translation in (best, *best.others))


@pytest.mark.parametrize("text", ["Wait… what did you say…?", "No… I am hungry…!", "Yes…"])
def test_a_final_ellipsis_stays_beside_an_inner_one(shipped: Translator, text: str) -> None:
    end = text[text.rindex("…") :]
    assert translated(shipped, text).text.endswith(end)
    assert translated(shipped, text).text.count("…") == text.count("…")


@pytest.mark.parametrize("text", ["Loading…", "Wait… is it red?!", "What?? No…"])
def test_marks_are_kept_in_a_text_of_a_document(shipped: Translator, text: str) -> None:
    plain = translated(shipped, text).text
    assert translated(shipped, text, markup={"codes": []}).text == plain
    assert ("…" in plain, "..." in plain) == (True, False)


@pytest.mark.parametrize(
    "text",
    ["RGB(255, 0, 128)", "Try again (press the up arrow key three times and hit enter):"],
)
def test_brackets_of_the_shipped_models_translations_are_pairs(
    shipped: Translator, text: str
) -> None:
    options = {"source_language": "en", "target_language": "de"}
    (as_generated,) = shipped.translate([text], {**options, "keep_placeholders": False})
    assert as_generated.text.count("(") > as_generated.text.count(")")
    (translation,) = shipped.translate([text], options)
    assert translation.text.count("(") == translation.text.count(")") == 1
