"""The decoding engine: from token ids to token ids.

scheduler   which waiting sentences form the next batch            no tensors
search      one sentence's hypotheses: greedy and beam             scores only
cache       the rows' keys and values                              tensors
session     one protocol over runtimes: encode, step, reorder      tensors
engine      puts them together: one worker thread a session
"""
