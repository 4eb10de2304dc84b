from __future__ import annotations

from dragoman_training.run.evaluation import measure


def test_scores_are_case_sensitive_and_have_signatures() -> None:
    right = ["The quick brown fox jumps over the lazy dog ."]
    assert measure(right, right).bleu == 100.0
    lowered = measure([right[0].lower()], right)
    assert lowered.bleu < 90
    assert "case:mixed" in lowered.bleu_signature
    assert "tok:13a" in lowered.bleu_signature
    assert lowered.chrf_signature
