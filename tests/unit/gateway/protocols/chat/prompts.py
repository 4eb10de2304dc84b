"""Requests of programs that let a language model translate, written by hand after their code."""

from __future__ import annotations

import json
from typing import Any

Messages = list[dict[str, Any]]


def user(content: Any) -> Messages:
    """A conversation with one message."""
    return [{"role": "user", "content": content}]


def pdf2zh(text: str, target: str) -> Messages:
    """pdf2zh 1.x, `pdf2zh/translator.py`."""
    return user(
        "You are a professional, authentic machine translation engine. "
        "Only Output the translated text, do not include any other text.\n\n"
        f"Translate the following markdown source text to {target}. "
        "Keep the formula notation {v*} unchanged. "
        "Output translation directly without any additional text.\n\n"
        f"Source Text: {text}\n\nTranslated Text:"
    )


def babeldoc(text: str, target: str) -> Messages:
    """BabelDOC and pdf2zh 2, `babeldoc/translator/translator.py`, for one paragraph."""
    role = "You are a professional,authentic machine translation engine."
    return [
        {"role": "system", "content": role},
        *user(
            f";; Treat next line as plain text input and translate it into {target}, output "
            "translation ONLY. If translation is unnecessary (e.g. proper nouns, codes, {{1}}, "
            f"etc. ), return the original text. NO explanations. NO notes. Input:\n\n{text}"
        ),
    ]


def babeldoc_batch(texts: list[str], target: str) -> Messages:
    """BabelDOC for several paragraphs, `il_translator_llm_only.py`, with its rules cut short."""
    paragraphs = [
        {"id": index, "input": text, "layout_label": "text"} for index, text in enumerate(texts)
    ]
    return user(
        f"You are a professional {target} native translator.\n\n## Structure Rules\n1. Keep **the "
        "same number of paragraphs as the input**.\n4. Translate ALL human-readable content into "
        f"{target}.\n\n## Output Format\nReturn a JSON array of the same length.\n\n"
        f"## Here is the input:\n\n{json.dumps(paragraphs, indent=4)}"
    )


def weblate(texts: list[str], source: str, target: str) -> Messages:
    """Weblate 5.0 to 5.14, `weblate/machinery/openai.py`."""
    separator = "\n==WEBLATE_PART==\n"
    system = (
        "\nYou are a highly skilled translation assistant, adept at translating text\n"
        f"from language '{source}'\nto language '{target}'\nwith precision and nuance.\n\n\n"
        "You always reply with translated string only.\nYou do not include transliteration.\n"
    )
    if len(texts) > 1:
        system += (
            f"\nYou receive an input as strings separated by {separator} and\n"
            f"your answer separates strings by {separator}.\n"
        )
    return [{"role": "system", "content": system}, *user(separator.join(texts))]


def weblate_strings(
    texts: list[str], source: str, target: str, glossary: dict[str, str]
) -> Messages:
    """Weblate from 5.15, `weblate/machinery/llm.py`, with an example before the strings."""

    def content(strings: list[str], terms: dict[str, str]) -> str:
        return json.dumps(
            {
                "source_language": source,
                "target_language": target,
                "glossary": [
                    {"source": term, "target": translation} for term, translation in terms.items()
                ],
                "strings": [{"source": text, "key": "a.b"} for text in strings],
            }
        )

    return [
        {"role": "system", "content": "You are a professional translation engine."},
        *user(content(["Hello, @@PH1@@!"], {})),
        {"role": "assistant", "content": '["Hallo, @@PH1@@!"]'},
        *user(content(texts, glossary)),
    ]


def translategemma(text: str, source: str, target: str) -> Messages:
    """TranslateGemma's own prompt, as programs write it for Ollama."""
    return user(
        f"You are a professional {source} (xx) to {target} (yy) translator. Your goal is to "
        f"accurately convey the meaning and nuances of the original {source} text while adhering "
        f"to {target} grammar, vocabulary, and cultural sensitivities.\nProduce only the {target} "
        "translation, without any additional explanations or commentary. Please translate the "
        f"following {source} text into {target}:\n\n\n{text}"
    )
