# ruff: noqa: RUF001  the quotation marks and dashes of several languages
from __future__ import annotations

import re

import pytest
import sentencex
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.texts import sentences as splitting
from dragoman.kernel.texts.sentences import BREAKS_TO_SPACES, LineBreaks, split_sentences

EXPECTED = {
    "en": [
        "Dr. Smith came at 5 p.m.|He left.",
        "I saw Mr. Brown, Mrs. White and Prof. Green.|They waved.",
        'He said: "I am here. Where are you?"|Then he left.',
        "“I am here.”|She smiled.|“Good.”",
        "Well... I don't know.|Maybe…  perhaps.",
        "It costs 3.50 dollars.|That's 2.5 percent.",
        "J. R. R. Tolkien wrote it.|So did C. S. Lewis.",
        "See https://www.example.com/a.b?c=d.|It is good.",
        "Visit example.com.|It is good.",
        "The U.S. is big.|The U.S. President came.",
        "This is e.g. a test, i.e. a trial.|Fine.",
        "Is it No. 5?|Yes, it is no. 5.",
        "Smith et al. 2016 say so.|Fig. 3 shows it.",
        "He lied to me.|I know it.",
        "She said no.|He said yes.",
        "See vol. 3, pp. 12-15.|Done.",
        "What?!|No way!!|Yes.",
        "Version 2.0.1 is out.|Get it.",
        "Use .NET here.|It is good.",
    ],
    "de": [
        "Dr. Müller kam um 5 Uhr.|Er ging.",
        "Das ist z. B. ein Test.|Fertig.",
        "Das ist z.B. ein Test, d. h. ein Versuch.|Fertig.",
        "Am 3. Oktober 1990 war es so weit.|Alle feierten.",
        "Der 2. Weltkrieg begann 1939.|Er dauerte lange.",
        "Es war das 165. Stiftungsfest.|Alle kamen.",
        "Im 19. Jahrhundert war es anders.|Ja.",
        "Heute ist der 5.|Morgen ist der 6.",
        "Das war am 5. Peter kam.",  # wrong, and known: docs/long-text.md
        "Er sagte: „Ich bin hier. Wo bist du?“|Dann ging er.",
        "„Halt!“, rief er.|„Geh weiter.“",
        "Es kostet 3,50 Euro.|Das sind 1.000 Cent.",
        "E. T. A. Hoffmann schrieb es.|J. S. Bach nicht.",
        "Na ja … Ich weiß nicht.|Vielleicht...",
        "Siehe www.beispiel.de.|Es ist gut.",
        "Prof. Dr. h. c. Meier sprach.|Alle hörten zu.",
        "Die Fa. Siemens baut es.|Gut.",
        "Er kennt mich.|Ich kenne ihn.",
        "Sie starben.|1956 ging er fort.",
        "Ludwig XIV. war König.|Er starb.",
        "Am 24.12. um 18 Uhr, d.h. am 24. abends.|Gut.",
    ],
    "fr": [
        "M. Dupont est venu.|Il est parti.",
        "Mme Curie et M. Curie.|Ils sont là.",
        "Le Dr. Martin est là.|Le Dr Martin aussi.",
        "Il a dit : « Je suis là. Où es-tu ? »|Puis il est parti.",
        "« Halte ! » cria-t-il.|« Va. »",
        "Ça coûte 3,50 euros.|C'est 2.5.",
        "J.-P. Sartre a écrit.|A. Camus aussi.",
        "Eh bien… Je ne sais pas.|Peut-être...",
        "Qui est-ce ?|C'est moi !|Ah bon ?",
        "Voir https://exemple.fr/a.b.|C'est bon.",
        "Au XIXe s. c'était autre.|Av. J.-C. aussi.",
        "il est parti.|elle reste.",
        "Le n° 5 est là.|L'art. 3 aussi.",
    ],
}
MANY = st.text(
    alphabet="abA1.!?,;:… \n\r\t\u00a0\u2028é漢\"'“”«»()-–—*•>#🙂\u0301\u200d", max_size=120
)


def sentences(text: str, language: str = "en") -> list[str]:
    return [sentence for sentence, _ in split_sentences(text, language) if sentence]


@pytest.mark.parametrize(
    ("language", "marked"), [(name, text) for name in EXPECTED for text in EXPECTED[name]]
)
def test_sentence_boundaries_are_found(language: str, marked: str) -> None:
    assert sentences(marked.replace("|", " "), language) == marked.split("|")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("- One.\n* Two.\n• Three.\n", ["- ", "\n* ", "\n• ", "\n"]),
        ("1. Open it. 2. Close it.\n  a) Or not.", ["1. ", " 2. ", "\n  a) ", ""]),
        ("# Title\n\n>> Quoted.\n", ["# ", "\n\n>> ", "\n"]),
        ("One.\n\n* * *\n\n\tTwo.  \r\n", ["\n\n* * *\n\n\t", "  \r\n"]),
        ("- [ ] One.\n- [x] Two.", ["- [ ] ", "\n- [x] ", ""]),
        ("— Bonjour. Ça va ?", ["— ", " ", ""]),
        ("-Bonjour. –Ça va ?\n—Oui.\n-5 et -v", ["-", " –", "\n—", "\n", ""]),
        ("a. One.\n  ii. Two.\nIV. Three.\nB. 4 cats.", ["a. ", "\n  ii. ", "\nIV. ", "\nB. ", ""]),
        ("z. B. one\nE. coli\ni. A. two\nX.Y. is", ["\n", "\n", "\n", ""]),
        ("It is P(A | B) | or (a)", [" | ", ""]),
        ("Home | News  ·\tAbout us • a|b", [" | ", "  ·\t", " • ", ""]),
    ],
)
def test_the_marks_of_lists_stay(text: str, kept: list[str]) -> None:
    assert [separator for _, separator in split_sentences(text, "en")] == kept


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("de", ["3. Oktober 1990.", "z. B. heute.", "Die 3. und 14. Seite.", "Der ehem. Chef."]),
        (
            "en",
            [
                "It costs approx. 5 euros.",
                "See vol. 3, ch. 4, and para. 5.",
                "Use max. 3 of it.",
                "from Mon. to Fri.",
            ],
        ),
        ("fr", ["Voir nos. 3 et réf. 4 en oct. 2024.", "Le gén. Dupont est là."]),
    ],
)
def test_dates_and_abbreviations_do_not_end_sentences(language: str, texts: list[str]) -> None:
    for text in texts:
        assert sentences(text, language) == [text]


def test_an_abbreviation_before_a_word_may_end_a_sentence() -> None:
    assert len(sentences("It goes to the max. Then it ends.", "en")) == 2


def test_a_hard_wrapped_paragraph_is_not_cut_at_its_lines() -> None:
    text = (
        "This is a hard-wrapped paragraph, which goes on over some lines, as Dr.\n"
        "Smith would write it. The second sentence ends here. The third one was\n"
        "not so short that it would fit.\n"
    )
    assert [sentence.count("\n") for sentence in sentences(text)] == [1, 0, 1]
    indented = text.replace("\n", "\r\n   ")
    assert len(sentences(indented)) == 3


@pytest.mark.parametrize(
    "text",
    [
        "Milk\nEggs and bread\nSomething else of a greater length than what is above it\nCheese",
        "The title of a book that has a rather long title\nJohn Smith",
        "- The first item of a list that is longer than the others\n- The second one\n- Three",
        "Roses are red,\nViolets are blue,\nSugar is sweet,\nAnd so are you.",
    ],
)
def test_lines_that_were_not_wrapped_stay_apart(text: str) -> None:
    assert len(sentences(text)) == text.count("\n") + 1


@given(MANY, st.sampled_from(["en", "de", "fr", "xx"]))
def test_splitting_loses_no_character(text: str, language: str) -> None:
    parts = split_sentences(text, language)
    assert "".join(sentence + kept for sentence, kept in parts) == text
    assert all(sentence == sentence.strip() for sentence, _ in parts)
    assert all(sentence for sentence, _ in parts[1:])


@given(st.lists(st.sampled_from(["word ", "Dr. ", "No. ", '"Ah!" ', "me. ", "5. ", "\n"])))
def test_separators_contain_no_words(words: list[str]) -> None:
    kept = "".join(kept for _, kept in split_sentences("".join(words) * 40, "en"))
    assert not re.search("[a-zA-Z]", kept)


@pytest.mark.parametrize("repeated", ["A.", "A. A.", "ab " * 900 + "A."])
def test_the_splitter_reads_each_character_only_a_few_times(
    repeated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, segment = [], sentencex.segment

    def counted(language: str, text: str) -> list[str]:
        seen.append(len(text))
        return list(segment(language, text))

    monkeypatch.setattr(sentencex, "segment", counted)
    text = repeated * (50_000 // len(repeated))
    for language in ("de", "en", "fr"):
        assert "".join(sum(split_sentences(text, language), ())) == text
    assert sum(seen) < 3 * 4 * len(text)


def test_a_text_longer_than_the_splitters_chunk() -> None:
    assert sentences("This is one. " * 2000) == ["This is one."] * 2000
    (first, *_), text = sentences("word " * 20_000), "word " * 20_000
    assert len(first) < len(text)
    assert "".join(s + k for s, k in split_sentences(text, "en")) == text


TRANSLATIONS = st.lists(st.text("abß", min_size=1), min_size=1).map(" ".join)


def without_blank_lines(text: str) -> str:
    return "\n".join(filter(str.strip, text.splitlines())).strip()


@given(TRANSLATIONS)
def test_line_breaks_return_to_their_positions(line: str) -> None:
    wrapped = line.replace(" ", "\n  ")
    breaks = LineBreaks.of(wrapped)
    assert breaks.line == line
    assert breaks.put_into(line) == wrapped


@given(MANY.map(without_blank_lines).filter(bool), TRANSLATIONS)
def test_no_line_break_is_lost(sentence: str, translation: str) -> None:
    breaks = LineBreaks.of(sentence)
    assert breaks.line.translate(BREAKS_TO_SPACES) == breaks.line
    text = breaks.put_into(translation)
    assert text.split() == translation.split()
    if len(translation.split()) > len(breaks.breaks):
        assert len(text.splitlines()) == len(sentence.splitlines())


def test_line_breaks_that_a_model_invents_become_spaces() -> None:
    assert LineBreaks.of("a b").put_into("c\nd") == "c d"
    assert LineBreaks.of("a\nb\nc").put_into(" d ") == "d"
    assert LineBreaks.of("a\nb\nc").put_into("d e") == "d\ne"
    assert LineBreaks.of("a\nb").put_into("") == ""


PLAIN_PARTS = (
    *("I am", "Mr", "12", "z", "Be", "’s", "-", "_", "'", ",", " ", ".", "!", "日本", ")", " - "),
)


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(PLAIN_PARTS), max_size=8), st.sampled_from(["en", "de", "fr", "ja"])
)
def test_the_fast_path_for_plain_sentences_gives_the_same_result(
    parts: list[str], language: str
) -> None:
    text = "".join(parts)
    expected = split_sentences(text, language)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(splitting, "_PLAIN", re.compile(r"(?!)"))
        assert split_sentences(text, language) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Name:\tAnna Smith\nAge:\t\t12", ["Name:", "Anna Smith", "Age:", "12"]),
        ("Name:   Anna   is here", ["Name:", "Anna", "is here"]),
        ("Here  is  Anna", ["Here  is  Anna"]),
        ("\tOpen it\n    Close it", ["Open it", "Close it"]),
        ("1.\tOpen it", ["Open it"]),
        ("- Yes.\n<i>- No.</i>", ["Yes.", "No.</i>"]),
    ],
)
def test_columns_are_separate(text: str, expected: list[str]) -> None:
    parts = split_sentences(text, "en")
    assert [sentence for sentence, _ in parts if sentence] == expected
    assert "".join(sentence + kept for sentence, kept in parts) == text


def test_a_line_separator_ends_a_line_that_seems_wrapped() -> None:
    text = "This line has so many words that it seems to be wrapped\nand this one goes on too"
    assert len(split_sentences(text, "en")) == 1
    assert len(split_sentences(text.replace("\n", "\u2028"), "en")) == 2


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("Yes.\nThis is long.", "Das ist gut so.  Ja.", "Das ist gut so.\nJa."),
        ("I am here, you see.\n\nNo.", "Ja. Nein, das ist gut.", "Ja.\n\nNein, das ist gut."),
        ("I am\r\n  here. You", "Hier. Bin ich du", "Hier. Bin\r\n  ich du"),
        ("Name:  Anna\tSmith", "Name: Anna Smith", "Name:  Anna\tSmith"),
    ],
)
def test_line_breaks_after_a_sentence_stay_there(
    text: str, translation: str, expected: str
) -> None:
    assert LineBreaks.of(text).put_into(translation) == expected


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("- Who is it? - It is me.", ["Who is it?", "It is me."]),
        ("– Kommst du? – Nein. — Schade!", ["Kommst du?", "Nein.", "Schade!"]),
        ("It is late. -5 degrees is cold.", ["It is late.", "-5 degrees is cold."]),
        ("A well-known - and old - house.", ["A well-known - and old - house."]),
    ],
)
def test_the_dash_of_a_speaker_is_kept(text: str, sentences: list[str]) -> None:
    parts = split_sentences(text, "en")
    assert "".join(map("".join, parts)) == text
    assert [sentence for sentence, _ in parts if sentence] == sentences
