"""A request through a pivot language, which runs its two legs one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dragoman_options.markup import Markup
from dragoman_options.refusal import Refusal

from dragoman.kernel.errors import InvalidRequest
from dragoman_serving.engine.futures import Future, when_all_done
from dragoman_serving.markup.carried_markup import CarriedMarkup
from dragoman_serving.models.routes import Route
from dragoman_serving.request.legs import legs_of
from dragoman_serving.request.markups import check_markup, markups_of
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.requests import ParsedRequest
from dragoman_serving.translation.pivot import joined
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator

BeginLast = Callable[[Translator, ParsedRequest, Mapping[str, Any]], Future[list[Translation]]]
"""Starts translating texts in the pivot language, with options."""


class PivotedRequest:
    """A running request. Each leg waits for its own bundle, and releases it at its end.

    Attributes:
        bundle: identities of the bundles of the started legs, separated by a comma.
    """

    def __init__(self, bundles: Bundles, route: Route, request: ParsedRequest, model: str) -> None:
        """Check the options.

        Args:
            bundles: bundles of the server.
            route: route through a pivot language.
            request: the request.
            model: name of the Triton model.

        Raises:
            InvalidRequest: an option is not valid, or not available through a pivot language.
        """
        assert route.via is not None
        self.bundle = ""
        self._via: str = route.via
        self._bundles, self._route, self._request = bundles, route, request
        self._legs = legs_of(request.requested.options, route.languages, model)
        self._markups = _carried(request.texts, self._legs.first)
        self._first: Sequence[Translation] = ()

    def start(self, begin_last: BeginLast) -> Future[list[Translation]]:
        """Start the first leg.

        Args:
            begin_last: starts the last leg when the first one is done.

        Returns:
            A future of the joined translations. Cancelling it cancels the running leg.

        Raises:
            DragomanError: the first leg is refused.
        """
        request = self._request

        def begin_first(translator: Translator) -> Future[list[Translation]]:
            self.bundle = translator.manifest.identity
            markups = [markup.first if markup else None for markup in self._markups]
            options = _with_markups(self._legs.first, markups)
            return translator.submit(request.texts, options, request.urgency).future

        def go_on(done: list[list[Translation]]) -> Future[list[Translation]]:
            self._first = done[0]
            self._count(0, self._first)
            between = replace(request, texts=[translation.text for translation in self._first])
            options = _with_markups(self._legs.last, self._markups_between())

            def begin(translator: Translator) -> Future[list[Translation]]:
                self.bundle += f",{translator.manifest.identity}"
                try:
                    return begin_last(translator, between, options)
                except InvalidRequest as error:
                    message = f"{error} (in its translation into {self._via!r})"
                    raise InvalidRequest(*Refusal.of(error)._replace(message=message)) from None

            last = self._bundles.start(self._route.bundles[1], between, begin)
            return when_all_done([last], self._end)

        return when_all_done(
            [self._bundles.start(self._route.bundles[0], request, begin_first)], go_on
        )

    def joined(self, last: Sequence[Translation]) -> list[Translation]:
        """Returns the translations of both legs, from those of the last one."""
        detected = self._route.detected or (None,) * len(last)
        return [
            joined(first, last_one, self._via, detection, markup)
            for first, last_one, detection, markup in zip(
                self._first, last, detected, self._markups, strict=True
            )
        ]

    def _markups_between(self) -> list[Markup | None]:
        """The markup of the texts in the pivot language."""
        return [
            markup.last(translation.text, translation.codes)
            if markup and translation.codes
            else None
            for markup, translation in zip(self._markups, self._first, strict=True)
        ]

    def _end(self, done: list[list[Translation]]) -> list[Translation]:
        self._count(1, done[0])
        return self.joined(done[0])

    def _count(self, leg: int, translations: Sequence[Translation]) -> None:
        name = self._route.bundles[leg].name
        self._bundles.keeper.count_pivoted(
            name, sum(translation.sentences for translation in translations)
        )


def _carried(texts: Sequence[str], options: Mapping[str, Any]) -> list[CarriedMarkup | None]:
    """The markup of each text."""
    carried: list[CarriedMarkup | None] = [None] * len(texts)
    for index, markup in enumerate(markups_of(options, len(texts))):
        if markup is not None:
            check_markup(index, texts[index], markup)
            carried[index] = CarriedMarkup(texts[index], markup)
    return carried


def _with_markups(
    options: Mapping[str, Any], markups: Sequence[Markup | None]
) -> Mapping[str, Any]:
    """Options with the markup of each text, if any text has markup."""
    return {**options, "markup": markups} if any(markups) else options
