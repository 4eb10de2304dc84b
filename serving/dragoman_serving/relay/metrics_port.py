"""The engine's figures on Triton's own metrics port, for Prometheus."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman_serving.service.frames import Figure

log = logging.getLogger(__name__)


class FigurePublisher:
    """Declares each figure when it comes first, and writes it each time."""

    def __init__(self, model: str) -> None:
        """Begin with none; `model` is the label of all."""
        self._model = model
        self._metrics: dict[str, Any] = {}
        self._families: list[Any] = []
        """They must live as long as their metrics."""
        self._gauges: dict[str, float] = {}
        self._works = True

    def publish(self, figures: Sequence[Figure]) -> None:
        """Write figures; nothing if there is no metrics port."""
        if not self._works:
            return
        try:
            for figure in figures:
                self._write(figure)
        except Exception:  # figures must not keep answers back
            log.exception("the figures are not written any more")
            self._works = False

    def _write(self, figure: Figure) -> None:
        metric = self._metrics.get(figure.name) or self._declare(figure)
        # Each time is a round trip to Triton's process: only for what is new.
        if not figure.is_gauge:
            if figure.value > 0:
                metric.increment(figure.value)
        elif self._gauges.get(figure.name) != figure.value:
            metric.set(figure.value)
            self._gauges[figure.name] = figure.value

    def _declare(self, figure: Figure) -> Any:
        kind = pb_utils.MetricFamily.GAUGE if figure.is_gauge else pb_utils.MetricFamily.COUNTER
        family = pb_utils.MetricFamily(name=figure.name, description=figure.description, kind=kind)
        self._families.append(family)
        self._metrics[figure.name] = family.Metric(labels={"model": self._model})
        return self._metrics[figure.name]
