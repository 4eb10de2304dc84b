"""Soft alignments of given pairs, in both directions, by the compiled model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.markup.evidence import Evidence, Floats
from dragoman_serving.scoring.compiled_scoring import NativeScoring
from dragoman_serving.scoring.token_pair import TokenPair, like_lengths

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from lab.markup.tagged_pairs import TaggedPair


class SoftAligner:
    """Aligns English sentences with their translations."""

    def __init__(self, bundle: Path) -> None:
        """Load a bundle.

        Raises:
            UsageError: its manifest does not name alignment heads.
        """
        manifest = Manifest.load(bundle)
        if manifest.alignment is None:
            raise UsageError(f"{bundle}: no heads; choose them with: dragoman align-heads")
        self._tokenizer = manifest.open_tokenizer(bundle)
        self._limits = manifest.limits
        network = NativeNetwork(bundle, manifest)
        self._scoring = NativeScoring(network, manifest.special_ids, manifest.alignment)

    def align(
        self, pairs: Sequence[TaggedPair], language: str
    ) -> Iterator[tuple[TaggedPair, Evidence]]:
        """Align pairs; those that are too long for the model are skipped."""
        pairs = [pair for pair in pairs if self._fits(pair)]
        forward = self._weights([(pair.source, pair.target) for pair in pairs], language)
        reverse = self._weights([(pair.target, pair.source) for pair in pairs], "en")
        for pair, weights, reverse_weights in zip(pairs, forward, reverse, strict=True):
            source = [(piece.begin, piece.end) for piece in self._tokenizer.pieces(pair.source)]
            target = [
                (piece.begin, piece.end) for piece in self._tokenizer.target.pieces(pair.target)
            ]
            yield pair, Evidence(weights, source, target, reverse_weights)

    def _fits(self, pair: TaggedPair) -> bool:
        most = min(self._limits.max_source_tokens, self._limits.max_target_tokens)
        texts = pair.source, pair.target
        return all(len(self._tokenizer.encode_source(text, "en")) < most for text in texts)

    def _weights(self, texts: Sequence[tuple[str, str]], language: str) -> list[Floats]:
        """[T, S] for each text and its translation."""
        given = [
            TokenPair(
                tuple(self._tokenizer.encode_source(source, language)),
                tuple(self._tokenizer.target.encode(target)),
                attention=True,
            )
            for source, target in texts
        ]
        lengths = [(len(pair.tgt_ids) + 1, len(pair.src_ids)) for pair in given]
        order = sorted(range(len(given)), key=lengths.__getitem__)
        weights: dict[int, Floats] = {}
        for group in like_lengths([lengths[index] for index in order]):
            scored = self._scoring.run([given[index] for index in order[group]])
            for index, score in zip(order[group], scored, strict=True):
                assert score.attention is not None  # it was requested
                weights[index] = score.attention[:, self._tokenizer.tags : -1]
        return [weights[index] for index in range(len(given))]
