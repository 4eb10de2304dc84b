from __future__ import annotations

import pytest
from dragoman_serving.fidelity.ordinals import ordinals


@pytest.mark.parametrize(
    ("languages", "source", "target", "right"),
    [
        (("en", "de"), "The 21st century", "Der 21 Jahrhundert", "Der 21. Jahrhundert"),
        (("en", "fr"), "The 21st century", "Le 21 siècle", "Le 21e siècle"),
        (("de", "en"), "Das 21. Jahrhundert", "the 21 century", "the 21st century"),
        (("en", "de"), "the 3rd page of the 80s", "Seite 3, die 80er", "Seite 3, die 80er"),
        (("de", "en"), "Der 2. Weltkrieg begann", "World War 2 began", "World War 2 began"),
        (("en", "de"), "the 5th of 5 people", "der 5 von 5 Leuten", "der 5 von 5 Leuten"),
        (("en", "de"), "the 47th door", "die 47er Tür", "die 47. Tür"),
        (("en", "de"), "the 30th child", "dem 30sten Kind", "dem 30. Kind"),
        (("en", "de"), "in the 90s", "in den 90er Jahren", "in den 90er Jahren"),
        (("en", "de"), "He came 2nd.", "Er kam 2nd.", "Er kam 2."),
        (("en", "fr"), "the 1st of May", "le 1ste de mai", "le 1er de mai"),
        (("en", "de"), "the 23rd page", "die 23rd Seite", "die 23. Seite"),
        (("en", "de"), "the 8th and 9th", "die 8th- und 9th-Seite", "die 8. und 9. Seite"),
        (("en", "de"), "7 June", "am 7 Juni", "am 7. Juni"),
        (("en", "de"), "1.5 June, 2024 May", "1.5 Juni, 2024 Mai", "1.5 Juni, 2024 Mai"),
        (("en", "fr"), "the 1st and 22nd", "le 1st et 22nd jour", "le 1er et 22e jour"),
        (("en", "fr"), "3rd March", "le 3rd mars", "le 3 mars"),
        (("de", "en"), "die 2. und 13. Tür", "the 2. and 13. door", "the 2nd and 13th door"),
        (("de", "en"), "am 3. März", "on 3. March", "on 3 March"),
        (("de", "en"), "1. Öffne", "1. Open", "1. Open"),
        (("de", "en"), "Ludwig XIV. war", "Louis XIV. was", "Louis XIV was"),
        (("de", "en"), "Ludwig XIV. Er", "Louis XIV. He", "Louis XIV. He"),
        (("de", "fr"), "das 5. Haus", "la 5. maison", "la 5e maison"),
        (("fr", "en"), "la 1re et la 3e", "the 1re and 3e door", "the 1st and 3rd door"),
        (("fr", "de"), "la 2ème porte", "die 2ème Tür", "die 2. Tür"),
        (("de", "en"), "im 22. Jahrhundert", "in the 22th century", "in the 22nd century"),
        (("fr", "en"), "5 mai 2024", "on May 5 May 2024", "on May 5, 2024"),
        (("en", "fr"), "January 26", "le 2 janvier 26 janvier", "le 26 janvier"),
        (("en", "fr"), "January 2 and 6", "le 2 janvier 6 janvier", "le 2 janvier 6 janvier"),
        (("en", "de"), "the 2nd", "die 3rd", "die 3rd"),
        (("en", "it"), "the 2nd", "la 2nd", "la 2nd"),
    ],
)
def test_ordinals_are_written_as_the_language_does(
    languages: tuple[str, str], source: str, target: str, right: str
) -> None:
    for begin, end, text in sorted(ordinals(source, target, *languages), reverse=True):
        target = target[:begin] + text + target[end:]
    assert target == right
