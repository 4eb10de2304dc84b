"""A client that takes translations from a translation memory if it has them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from dragoman_documents.core.suggestions import Suggestions
from dragoman_documents.memory.memory_store import Memory
from dragoman_documents.memory.memory_use import check_use, stored_translations, suggestions
from dragoman_options.arguments import OptionArguments
from dragoman_options.markup import Markup
from dragoman_options.refusal import Refusal
from dragoman_options.table import Translation, check

from dragoman_client.core.errors import InvalidRequest
from dragoman_client.translator import Translator


class MemoryTranslator(Translator):
    """A `Translator` that asks the server only for texts that a memory lacks.

    `translate_file` uses the memory too; streams and `translate_batches` do not.

    Attributes:
        stored: number of texts so far whose translation the memory had.
    """

    def __init__(self, memory: Memory, *values: Any, **arguments: Any) -> None:
        """Prepare a connection.

        Args:
            memory: the memory; the caller closes it.
            *values: see `Translator`.
            **arguments: see `Translator`.
        """
        super().__init__(*values, **arguments)
        self._memory, self._languages = memory, memory.languages
        self._lock = threading.Lock()
        self.stored = 0

    def translate(  # type: ignore[override]
        self, texts: str | Sequence[str], **options: Unpack[OptionArguments]
    ) -> Translation | list[Translation]:
        """See `Translator`; an option that a stored translation cannot follow is an error."""
        if isinstance(texts, str):
            return self.translate([texts], **options)[0]  # type: ignore[index]
        checked = check(options)
        check_use(checked, self._languages, "memory")
        markups: Sequence[Markup] = checked.get("markup", ())
        stored = stored_translations(self._memory, texts, markups)
        missing = [index for index, translation in enumerate(stored) if translation is None]
        answers: Iterator[Translation] = iter(())
        if missing:
            if markups:
                options["markup"] = [markups[index] for index in missing]
            try:
                answers = iter(super().translate([texts[index] for index in missing], **options))
            except InvalidRequest as error:
                if error.text_index is None:
                    raise
                moved = Refusal.of(error).moved(missing[error.text_index])
                raise InvalidRequest(*moved) from error
        with self._lock:
            self.stored += len(texts) - len(missing)
        return [next(answers) if translation is None else translation for translation in stored]

    def suggest(self, texts: Sequence[str], markups: Sequence[Markup]) -> Sequence[Suggestions]:
        """Returns the translations of similar texts that the memory has."""
        return suggestions(self._memory, texts, markups, self._memory.name)
