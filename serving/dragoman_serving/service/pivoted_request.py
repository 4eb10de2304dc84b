"""A request through a pivot language: the two legs, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from dragoman.kernel.errors import InvalidRequest
from dragoman_serving.engine.futures import when_all_done
from dragoman_serving.models.routes import Route
from dragoman_serving.request.legs import legs_of
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.requests import Asked
from dragoman_serving.translation.pivot import joined
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator

BeginLast = Callable[[Translator, Asked, Mapping[str, Any]], Future[list[Translation]]]
"""Begins to translate texts in the pivot language, with options."""


class PivotedRequest:
    """A request under way. Each leg waits for its own bundle, which it lets go of at its end.

    Attributes:
        bundle: identities of the bundles of the legs that have begun, with a comma.
    """

    def __init__(self, bundles: Bundles, route: Route, asked: Asked, model: str) -> None:
        """Check its options.

        Args:
            bundles: that translate.
            route: through a pivot language.
            asked: the request.
            model: Triton's name of the model that is asked.

        Raises:
            InvalidRequest: an option is not valid, or cannot go through a pivot language.
        """
        assert route.via is not None
        self.bundle = ""
        self._via: str = route.via
        self._bundles, self._route, self._asked = bundles, route, asked
        self._legs = legs_of(asked.wanted.options, route.languages, model)
        self._first: Sequence[Translation] = ()

    def start(self, begin_last: BeginLast) -> Future[list[Translation]]:
        """Begin with the first leg.

        Args:
            begin_last: begins the last one when that is done.

        Returns:
            Translations of both legs. Cancelling it cancels the leg that is under way.

        Raises:
            DragomanError: the first leg is refused.
        """
        asked = self._asked

        def begin_first(translator: Translator) -> Future[list[Translation]]:
            self.bundle = translator.manifest.identity
            return translator.submit(asked.texts, self._legs.first, asked.urgency).future

        def go_on(found: list[list[Translation]]) -> Future[list[Translation]]:
            self._first = found[0]
            self._count(0, self._first)
            between = replace(asked, texts=[one.text for one in self._first])

            def begin(translator: Translator) -> Future[list[Translation]]:
                self.bundle += f",{translator.manifest.identity}"
                try:
                    return begin_last(translator, between, self._legs.last)
                except InvalidRequest as error:
                    raise InvalidRequest(
                        f"{error} (in its translation into {self._via!r})"
                    ) from None

            last = self._bundles.start(self._route.bundles[1], between, begin)
            return when_all_done([last], self._end)

        return when_all_done(
            [self._bundles.start(self._route.bundles[0], asked, begin_first)], go_on
        )

    def joined(self, last: Sequence[Translation]) -> list[Translation]:
        """Translations of both legs, of those of the last one."""
        detected = self._route.detected or (None,) * len(last)
        return [
            joined(first, last_one, self._via, found)
            for first, last_one, found in zip(self._first, last, detected, strict=True)
        ]

    def _end(self, found: list[list[Translation]]) -> list[Translation]:
        self._count(1, found[0])
        return self.joined(found[0])

    def _count(self, leg: int, found: Sequence[Translation]) -> None:
        name = self._route.bundles[leg].name
        self._bundles.keeper.count_pivoted(name, sum(one.sentences for one in found))
