"""Language codes as users write them."""

import pytest
from dragoman_options.languages import fold_language, language_fallbacks


@pytest.mark.parametrize(
    ("given", "known", "folded"),
    [
        ("de", ["en", "de"], "de"),
        ("DE", ["en", "de"], "de"),
        (" De ", ["en", "de"], "de"),
        ("de-DE", ["en", "de"], "de"),
        ("en_US", ["en", "de"], "en"),
        ("pt", ["pt-br", "pt"], "pt"),
        ("pt_BR", ["pt", "pt-br"], "pt-br"),
        ("PT-pt", ["pt", "pt-br"], "pt"),
        ("zh-hans-cn", ["zh", "zh_Hans"], "zh_Hans"),
        ("pt-BR", ["pt_br", "pt-BR"], "pt-BR"),
        ("PT-BR", ["pt_br", "pt-BR"], "pt_br"),
        ("pt", ["pt-br"], None),
        ("deu", ["en", "de"], "de"),
        ("ger", ["en", "de"], "de"),
        ("de", ["eng", "deu"], "deu"),
        ("iw", ["he"], "he"),
        ("mo", ["ro"], "ro"),
        ("nb-NO", ["sv", "no"], "no"),
        ("no", ["nb", "nn"], "nb"),
        ("no", ["nb", "no"], "no"),
        ("nn", ["no", "nb"], None),
        ("ms", ["zsm_Latn"], "zsm_Latn"),
        ("fil-PH", ["tl"], "tl"),
        ("zh", ["cmn_Hant", "cmn_Hans"], "cmn_Hans"),
        ("zh", ["cmn_Hans", "zh"], "zh"),
        ("zh-CN", ["cmn_Hant", "cmn_Hans"], "cmn_Hans"),
        ("zh-TW", ["cmn_Hans", "cmn_Hant"], "cmn_Hant"),
        ("zh-Hant-HK", ["cmn_Hans", "cmn_Hant"], "cmn_Hant"),
        ("zh-TW", ["cmn_Hans"], None),
        ("zh-TW", ["zh"], "zh"),
        ("sr", ["srp_Latn", "srp_Cyrl"], "srp_Cyrl"),
        ("pt-BR", ["por", "pob"], "pob"),
        ("pt-PT", ["pob", "por"], "por"),
        ("pt", ["pob", "por"], "por"),
        ("pt", ["pob"], None),
        ("es-419", ["es", "es-ES"], "es"),
        ("de-DE-1996", ["de-1996", "de"], "de-1996"),
        ("de", ["de-1996"], None),
        ("d", ["de"], None),
        ("", ["de"], None),
        ("-", ["de"], None),
    ],
)
def test_a_code_is_folded_to_a_known_one(given: str, known: list[str], folded: str | None) -> None:
    """A language code stands for the most specific known code that it matches."""
    assert fold_language(given, known) == folded


@pytest.mark.parametrize(
    ("given", "known", "fallbacks"),
    [
        (("en", "zh-CN"), ["en", "cmn_Hans"], ("zh-CN=cmn_Hans",)),
        (("eng", "de-AT"), ["en", "de"], ("eng=en", "de-AT=de")),
        (("EN", " pt_br"), ["en", "pt-BR"], ()),
        (("auto", "pt-BR"), ["en", "pob"], ("pt-BR=pob",)),
        ((None, "nl"), ["en", "de"], ()),
    ],
)
def test_codes_that_stand_for_others_are_named(
    given: tuple[str | None, ...], known: list[str], fallbacks: tuple[str, ...]
) -> None:
    assert language_fallbacks(given, known) == fallbacks
