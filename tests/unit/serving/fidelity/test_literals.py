# ruff: noqa: RUF001  signs of multiplication
"""Literals: parts of a text that its translation must repeat unchanged."""

from __future__ import annotations

from itertools import pairwise

import pytest
from dragoman_serving.fidelity.literals import Literal, Literals, known_literals, tag_spans
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"


@pytest.fixture(scope="module")
def literals() -> Literals:
    return Literals(Tokenizer(BUNDLE / "tokenizer.model"))


def known(text: str) -> list[str]:
    return [text[literal.begin : literal.end] for literal in known_literals(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi {name}, {0} {} {{ a.b }} ${C}", ["{name}", "{0}", "{}", "{{ a.b }}", "${C}"]),
        ("%s %1$s %(count)d %.2f %@ 9% sure", ["%s", "%1$s", "%(count)d", "%.2f", "%@"]),
        ("<%= name %> {% if x %} $name %NAME%", ["<%= name %>", "{% if x %}", "$name", "%NAME%"]),
        ("See https://a.de/x?y=1&z=(2), or www.b.org.", ["https://a.de/x?y=1&z=(2)", "www.b.org"]),
        ("[a](http://a.de/b_(c)) (S3://b/c), www. So", ["http://a.de/b_(c)", "S3://b/c"]),
        ("at example.org/a, not at e.g. or z.B.", ["example.org/a"]),
        ("mail tom.x+y@example.co.uk.", ["tom.x+y@example.co.uk"]),
        ("R&amp;D &#38; &#x26; AT&T; a & b; &;", ["&amp;", "&#38;", "&#x26;", "&T;"]),
        ("ask @anna, #no1 and :heart:, #1", ["@anna", "#no1", ":heart:"]),
        ("You have :count of :user. Note: this", [":count", ":user"]),
        ("from 00:1A:2B:3C:4D:5E to 10.0.0.1:80", ["00:1A:2B:3C:4D:5E", "10.0.0.1:80"]),
        ("::1 2001:db8::1 is 1 address", ["::1", "2001:db8::1"]),
        ("DE89 3704 0044 0532 0130 00 is mine", ["DE89 3704 0044 0532 0130 00"]),
        ("call +1 (555) 010-9999 now", ["+1 (555) 010-9999"]),
        (
            "0800 555 111, 030/12345, 08 11 00 06 95",
            ["0800 555 111", "030/12345", "08 11 00 06 95"],
        ),
        ("1 000 000 of 10 000 000, 08 to 28, 07/08 and 01 02", []),
        ("on 2024-01-31 and 3.10.1990, 1,234.50", ["2024-01-31", "3.10.1990"]),
        ("v2-rc.1 and 1.2.3-beta.4, 1.2", ["v2-rc.1", "1.2.3-beta.4"]),
        ("%1 of %L2 (%3%): %n pages, 5%", ["%1", "%L2", "%3%", "%n"]),
        ("open a/b.txt or README.md, C:\\a\\b", ["a/b.txt", "README.md", "C:\\a\\b"]),
        ("in /usr/lib/x and/or there", ["/usr/lib/x"]),
        ("00:00:01,000 --> 00:00:04,000", ["00:00:01,000", "-->", "00:00:04,000"]),
        ("run `ls -l` :-) now <3", ["`ls -l`", ":-)", "<3"]),
        ("A-2024-00017, COVID-19, B12 and 3D", ["A-2024-00017", "COVID-19", "B12", "3D"]),
        ("a 5G network, 12AM, 10 Main St, IL 62701, AB 123", ["5G", "IL 62701"]),
        (
            "226(4)(a), point b), c) et d), (iv), cat(s), (a) x)",
            ["226(4)(a)", "b)", "c)", "d)", "(iv)", "(a)"],
        ),
        ("[name] saw [him] and [the_cat], [a](b), [two words]", ["[name]", "[the_cat]"]),
        ('10" x 8", 2.5"x3", he said "10" x', ['10" x 8"', '2.5"x3"']),
        (
            'A 10" pizza, 15.6" wide, 2 1/2" or 3/4", 4\' x 8\', 9\' high, 5\' 10"',
            ['10"', '15.6"', '2 1/2"', '3/4"', "4' x 8'", "9'", "5' 10\""],
        ),
        ('"The 12" and "5", „Apollo 13", the 1990\'s, 12\' later, 8"', ['8"']),
        (
            "6BE6WNT68RSN, 5f4dcc3b5aa7, JQYMWW5, a4c123b, d84173581569, fwrnb202",
            ["6BE6WNT68RSN", "5f4dcc3b5aa7", "JQYMWW5", "a4c123b", "d84173581569", "fwrnb202"],
        ),
        (
            "kDsZemkpwGS, x4Kp!9wQ and R$t5&kLm, eyJhbGciOiJI.eyJz-9.a_b",
            ["kDsZemkpwGS", "x4Kp!9wQ", "R$t5&kLm", "eyJhbGciOiJI.eyJz-9.a_b"],
        ),
        ("the 1990s, 11th, 20ième, 1h30, 4x100m, 2min30s, 30km, 1von2, law12, 100%ige", []),
        (
            "org.example.Main of user.name, java.util.List or spring.datasource.url.",
            ["org.example.Main", "user.name", "java.util.List", "spring.datasource.url"],
        ),
        ("at home.Then I, e.g. z.B. U.S. p.ex. a.m.You Best.Day.Ever, the JGU.You", []),
        ("''a'' && b || c == d, ==E== an ![f](g)", ["''", "''", "&&", "||", *["=="] * 3, "!["]),
        ("It is 10:30. No: 5 of 6 are 7% (8).", []),
        ("from 2001:db8::2:1 or fe80::1/64 by a:x", ["2001:db8::2:1", "fe80::1/64"]),
        ("call (079) 8936-36 (079 is old)", ["(079) 8936-36"]),
        ("by DIN EN ISO 9001:2015 and EN 13813, BS 7", ["DIN EN ISO 9001:2015", "EN 13813"]),
        ("set max_size_2 and a__b, not _so_ or x_", ["max_size_2", "a__b"]),
        ("from %s-%2$s, %path%/a", ["%s", "%2$s", "%path%"]),
        ("7 × 10³ m, 1,5·10⁶ or 3*10^-4, 2 × 10 m", ["7 × 10³", "1,5·10⁶", "3*10^-4", "m"]),
        ("4 1/2 cups, 4 1/2024, 1/2", ["4 1/2"]),
        ("1e-9 or 6.02E23, 5'11\", the 3e", ["1e-9", "6.02E23", "5'11\""]),
        ("%d%% of %%NAME%%, 100%%", ["%d", "%%", "%%NAME%%", "%%"]),
        ("<?= $x ?> ##A## @@b@@ *|C|* $(D)", ["<?= $x ?>", "##A##", "@@b@@", "*|C|*", "$(D)"]),
        ("(:-)) =) 8-) >:( ^_^ (see: a)", [":-)", "=)", "8-)", ">:(", "^_^"]),
        ("a=1&b=2, x == y, --a-b=c", ["a=1&b=2", "==", "--a-b=c"]),
        ("en-US, zh-Hant-TW, pro-EU, in-law, 5 EUR", ["en-US", "zh-Hant-TW", "EUR"]),
        ("[[a|b]] [b]c[/b] [url=x]d[/url] [E]", ["[[a|", "]]", "[b]", "[/b]", "[url=x]", "[/url]"]),
        ("[[a]] $$b=c$$ a::b or f(1, 2), cat(s)", ["[[a]]", "$$b=c$$", "a::b", "f(1, 2)"]),
        ("Inbox(12), year(2024), maxOf(3), a.b(1), x()", ["maxOf(3)", "a.b(1)", "x()"]),
        ("(EUR):1.234,56 or :1.000 at ::2,5", ["EUR"]),
        ("$$ cheap, $$$ good, AU$50 (an a_b) or AU$ 60", ["a_b"]),
        ("%1%2 of %L3%4", ["%1%2", "%L3%4"]),
        ("[Note=a sentence to be read] Title::Part", []),
        ("<@U1> <!here> <:a:12> <t:16:R> <Enter>", ["<@U1>", "<!here>", "<:a:12>", "<t:16:R>"]),
        ("$x^2$, $5 to $6, \\ref{a} \\alpha", ["$x^2$", "\\ref{a}"]),
        ("1.000.000, 12.345.678,90, 192.168.178.254, 1.200.3", ["192.168.178.254", "1.200.3"]),
        ("version 1.200.300, CPF 123.456.789-09", ["1.200.300", "123.456.789-09"]),
        ("Dear [NAME], see [FIRST NAME]. [MUSIC] Hi [A]", ["[NAME]", "[FIRST NAME]"]),
        ("[NAME] hat [DATUM]! [LAUGHS]", ["[NAME]", "[DATUM]"]),
        ("%H:%M:%S, %d. %B %Y, at 5% Tax", ["%H:%M:%S, %d", "%B %Y"]),
        (
            "dd.MM.yyyy HH:mm, YYYY-MM-DD. TT.MM.JJJJ, d.h. m/s",
            ["dd.MM.yyyy HH:mm", "YYYY-MM-DD", "TT.MM.JJJJ"],
        ),
        ("b) one c) two, (a) or x)", ["b)", "c)", "(a)"]),
        ("from !user, no! yes !important", ["!user", "!important"]),
        ("at EXAMPLE.ORG or A.B.COM/x; STOP.IT", ["EXAMPLE.ORG", "A.B.COM"]),
        (
            "BIC COBADEFFXXX, SWIFT-Code: DEUTDEFF, BIC is",
            ["BIC COBADEFFXXX", "SWIFT-Code: DEUTDEFF"],
        ),
        (
            "a \x1b[1;31mred\x1b[0m <!-- b --> -----",
            ["\x1b[1;31m", "\x1b[0m", "<!--", "-->", "-----"],
        ),
        ("Name: ______ Date: ____, a__b ..... 5", ["______", "____", "a__b", "....."]),
        (
            "UserManager, getName, iPhone, MyISAM, LehrerInnen, PhD, MwSt",
            ["UserManager", "getName", "iPhone", "MyISAM"],
        ),
    ],
)
def test_literals_of_all_known_forms_are_found(text: str, expected: list[str]) -> None:
    assert known(text) == expected


def test_tags_may_have_numbers() -> None:
    text = "<b>bold</b> <br/> a < b > c <0>d</0> <1/>"
    tags = [text[begin:end] for begin, end in tag_spans(text)]
    assert tags == ["<b>", "</b>", "<br/>", "<0>", "</0>", "<1/>"]


@pytest.mark.parametrize(
    ("text", "words", "signs"),
    [
        ("I love you ❤️ 👍🏽!", [], ["❤️ 👍🏽"]),
        ("👨‍👩‍👧 and 🇩🇪, 1️⃣", ["1️⃣"], ["👨‍👩‍👧", "🇩🇪"]),
        ("♪ la la ♪", [], ["♪", "♪"]),
        ("soon ‼️ ⁉️ or 🏴󠁧󠁢󠁥󠁮󠁧󠁿!", [], ["‼️ ⁉️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]),
        ("a ≤ b ≠ c, ★★★☆☆", [], ["≤", "≠", "★★★☆☆"]),
        ("Mr. Łukasz Żółć met Şükrü.", ["Łukasz Żółć", "Şükrü"], []),
        ("山田太郎 said мир.", ["山田太郎", "мир"], []),
        ("10² m², 2¼, 2¹⁰, CO₂ and H₂O", ["10² m²", "2¼", "2¹⁰", "CO₂", "H₂O"], []),
        ("the price¹ is 20 °C", ["°C"], ["¹"]),
        ("The âge, été and übung", [], []),
        ("Acme™ is ﬁne", [], ["™"]),
        ("a ^ b | c~d of 10^6", ["10^6"], ["^", "|", "~"]),
        ("pre\u2011war and e\u2010mail", [], []),
    ],
)
def test_what_the_vocabulary_cannot_write_is_found(
    literals: Literals, text: str, words: list[str], signs: list[str]
) -> None:
    kept = literals.of(text, "en", known=False)
    assert [text[literal.begin : literal.end] for literal in kept if not literal.is_sign] == words
    assert [text[literal.begin : literal.end] for literal in kept if literal.is_sign] == signs


@pytest.mark.parametrize("text", ["{n}5", "2×4", "<%= x %>12", "10²3"])
def test_a_literal_has_the_digits_behind_it(literals: Literals, text: str) -> None:
    (literal,) = literals.of(f"It is {text}, 6.", "en")
    assert (literal.begin, literal.end) == (6, 6 + len(text))


def test_words_with_letters_of_their_language_are_no_literals(literals: Literals) -> None:
    text = "Noël en Israël à Kraków"
    for language, words in (("fr", ["Kraków"]), ("en", ["Noël", "Israël", "Kraków"])):
        kept = literals.of(text, language, known=False)
        assert [text[literal.begin : literal.end] for literal in kept] == words


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        ("en", "A pâté à la carte", []),
        ("en", "Zoë met Mr. Müller at the café in Malmö.", ["Müller", "Malmö"]),
        ("de", "Herr Çelik fuhr nach Besançon, Übung für Größe", ["Çelik", "Besançon"]),
        ("fr", "À Zürich, l'été et Noël sont à Gößweinstein", ["Zürich", "Gößweinstein"]),
        ("xx", "Müller in Malmö", []),
    ],
)
def test_names_with_letters_of_other_languages_are_usually_repeated(
    literals: Literals, language: str, text: str, names: list[str]
) -> None:
    kept = literals.of(text, language)
    assert [text[literal.begin : literal.end] for literal in kept if literal.is_usual] == names


@pytest.mark.parametrize(
    ("language", "text", "letters"),
    [
        ("en", "The letters œ and ß, pâté à la carte", ["œ", "ß"]),
        ("de", "Das ß und ä stehen in Fuß, das ß-Ding nicht", ["ß", "ä"]),
        ("fr", "Il y a un ç à l'œil, ô mon ami", ["ç"]),
        ("sv", "en ö och en å", []),
    ],
)
def test_a_letter_by_itself_is_kept(
    literals: Literals, language: str, text: str, letters: list[str]
) -> None:
    kept = literals.of(text, language)
    assert [text[literal.begin : literal.end] for literal in kept] == letters
    assert not any(literal.is_usual for literal in kept)


def test_kept_spans_are_literals_and_join_their_neighbours(literals: Literals) -> None:
    text = "The green house {a} {b} is big"
    kept = literals.of(text, "en", keep=[Literal(4, 15)])
    assert [text[literal.begin : literal.end] for literal in kept] == ["green house {a} {b}"]
    alone = literals.of(text, "en", known=False, keep=[Literal(4, 9)])
    assert [text[literal.begin : literal.end] for literal in alone] == ["green"]


@given(st.text() | st.text("ab {}%<>/:.1½❤️ć你"))
def test_literals_are_in_order_and_apart(literals: Literals, text: str) -> None:
    kept = literals.of(text, "en")
    assert all(0 <= literal.begin < literal.end <= len(text) for literal in kept)
    assert all(a.end <= b.begin for a, b in pairwise(kept))


def test_names_do_not_join_other_literals(literals: Literals) -> None:
    text = "Kuno Brandvold\u2122 met Dorvenham {name}."
    kept = [text[literal.begin : literal.end] for literal in literals.of(text, "en")]
    assert kept == ["Kuno Brandvold", "\u2122", "Dorvenham", "{name}"]


@pytest.mark.parametrize(
    ("language", "text", "plurals"),
    [
        ("en", "box(es) and file(s), {n} (s), f(x), man(n), cat(s)t", ["boxes", "files"]),
        ("de", "Datei(en), Tag(e), Stunde(n), Benutzer(in)", ["Dateien", "Tage", "Stunden"]),
        ("fr", "le(s) fichier(s) choisi(s) {n}", ["les", "fichiers", "choisis"]),
        ("xx", "file(s)", []),
    ],
)
def test_words_for_one_or_several_are_read_as_plurals(
    literals: Literals, language: str, text: str, plurals: list[str]
) -> None:
    assert [word.read for word in literals.of(text, language) if word.read] == plurals
    assert not [word.read for word in literals.of(text, language, known=False) if word.read]


def test_texts_with_all_characters_fill_no_memory(literals: Literals) -> None:
    characters = "".join(map(chr, range(0x4E00, 0x4E00 + 12_000)))
    before = literals.of(characters[:50], "en")
    assert literals.of(characters, "en")
    assert len(literals._kinds) < 10_000
    assert literals.of(characters[:50], "en") == before
