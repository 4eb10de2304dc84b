# ruff: noqa: RUF001  the dashes and quotation marks of several languages
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kernel.texts.labels import label_gaps
from dragoman.kernel.texts.sentences import split_sentences

PARTS = ["Open", "shop", "Two words", "{n} cars", "5", "a", " ", "  ", "\n", ",", "|", "1#", "✅"]
SIGNS = [
    ": ",
    " » ",
    "« ",
    " › ",
    " → ",
    " - ",
    " – ",
    " / ",
    " + ",
    "; ",
    "->",
    " > ",
    "-v",
    "--x",
]


def parts(text: str) -> list[str]:
    return [sentence for sentence, _ in split_sentences(text, "en") if sentence]


@pytest.mark.parametrize(
    "marked",
    [
        "Status:_closed",
        "- Payment method:_credit card",
        "Statut :_fermé",
        "<b>Status:</b>_<i>closed</i>",
        "**Status:**_closed",
        "📍 Address:_Main Street",
        "Note:_it is open.",
        "Categories:_Cars_»_Books_»_Music",
        "Open:_Monday_–_Friday",
    ],
)
def test_a_key_and_its_value_are_separate(marked: str) -> None:
    expected = [part for part in marked.removeprefix("- ").split("_") if part not in "»–"]
    assert parts(marked.replace("_", " ")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Note: the door is open and cannot be closed.",
        'He said: "You are here, and you want to leave us now."',
        "In the end he came to this: nothing",
        "Total: 5",
        "Open today: 9am - 5pm",
        "Date: 5 May 2024",
        "Open from 10: 30",
        "http://a.b: good",
        'Add "Life stage: young" to it',
    ],
)
def test_a_colon_of_a_sentence_does_not_end_it(text: str) -> None:
    assert parts(text) == [text]


@pytest.mark.parametrize("labels", [["Home", "Shop"], ["Log in", "Your account", "Shoes"]])
@pytest.mark.parametrize(
    "sign",
    [
        " » ",
        " « ",
        " › ",
        " → ",
        "→",
        " ➜ ",
        " -> ",
        " > ",
        " / ",
        " + ",
        "; ",
        " - ",
        " – ",
        " — ",
    ],
)
def test_the_labels_of_a_list_are_separate(labels: list[str], sign: str) -> None:
    assert parts(sign.join(labels)) == labels


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("Read more »", ["Read more"]),
        ("« Back", ["Back"]),
        ("Next >", ["Next"]),
        ("Home » Shop »", ["Home", "Shop"]),
        ("Yes / no", ["Yes", "no"]),
        ("red - green - blue", ["red", "green", "blue"]),
        ("File > Save as...", ["File", "Save as..."]),
        ("✅ Done ❌ Not found", ["Done", "Not found"]),
        ("➕ add ✖️ remove", ["add", "remove"]),
    ],
)
def test_signs_beside_labels_are_kept(text: str, labels: list[str]) -> None:
    assert parts(text) == labels


@pytest.mark.parametrize(
    "text",
    [
        "He came - and went.",
        "He came - and went - yesterday",
        "The house – an old one – is for sale",
        "Pages 5 - 10",
        "3 May - 5 June",
        "A - Z",
        "5 / 10",
        "km / h",
        "Ctrl + C",
        "price > 100",
        "unknown / unnamed devices",
        "Radius (miles; optional)",
        "« Bonjour » puis « Adieu »",
        "« Je suis là, et je ne pars pas.",
        "We ❤ you 🎉",
        "❤️ Love this song 🎵 so much",
    ],
)
def test_ranges_quotations_and_dashes_of_sentences_stay_within(text: str) -> None:
    assert parts(text) == [text]


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("There is one|There are many", ["There is one", "There are many"]),
        ("{0} file|{0} files", ["{0} file", "{0} files"]),
        ("none|one|many", ["none", "one", "many"]),
        ("0#no files|1#one|1<{0} files", ["no files", "one", "{0} files"]),
        ("{0} None|[1,19] Some|[20,*] Many", ["None", "Some", "Many"]),
        ("P(A|B)", ["P(A|B)"]),
        ("It is (a or b|c or d)", ["It is (a or b|c or d)"]),
        ("true|false", ["true|false"]),
        ("[[the page|this text]]", ["[[the page|this text]]"]),
        ("2,Call mother,done", ["2", "Call mother", "done"]),
        ("Anna;Berlin;Teacher", ["Anna", "Berlin", "Teacher"]),
        ("1,000,000 people", ["1,000,000 people"]),
        ("print(apple,pear,plum)", ["print(apple,pear,plum)"]),
        ("apples,pears, and plums", ["apples,pears, and plums"]),
    ],
)
def test_plural_forms_and_cells_are_separate(text: str, forms: list[str]) -> None:
    assert parts(text) == forms


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("  -v, --version  print it", "  -v, --version  "),
        ("-o FILE  print it", "-o FILE  "),
        ("  --color=<when>  print it", "  --color=<when>  "),
        ("  -h|--help  print it", "  -h|--help  "),
    ],
)
def test_options_of_commands_are_kept(text: str, kept: str) -> None:
    assert split_sentences(text, "en") == [("", kept), ("print it", "")]
    assert parts("  add  add a user") == ["add", "add a user"]
    assert parts("-v is there.  It prints.") == ["-v is there.", "It prints."]


@given(st.lists(st.sampled_from(PARTS + SIGNS), max_size=9).map("".join))
def test_gaps_are_in_order_and_labels_have_none(line: str) -> None:
    ends = [0, *(end for _, end in label_gaps(line)), len(line)]
    begins = [*(begin for begin, _ in label_gaps(line)), len(line)]
    assert all(end <= begin for end, begin in zip(ends, begins, strict=False))
    assert "".join(sentence + kept for sentence, kept in split_sentences(line, "en")) == line
