"""The decoding engine: from token ids to token ids.

scheduler   which waiting sentences join which worker, and when    no tensors
search      one sentence's hypotheses: greedy and beam             scores only
batch       the sentences of one width that a worker has in flight
cache       their keys and values                                  tensors
session     one protocol over runtimes: encode, step, best         tensors
engine      the workers, and what becomes of all if one breaks
loading     an engine that fits a bundle and this machine
job, sentence, settings, statistics: what is passed around
"""
