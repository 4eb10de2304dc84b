"""Greedy search in the client with the models `encoder` and `decoder`, one request per step.

    dragoman serve --load encoder decoder
    python examples/own_loop.py "Guten Morgen."

`translate` does the same within the server. Here, the KV cache goes over the network at every step:
slow, but easy to modify. Needs tritonclient[grpc] and sentencepiece, and a bundle for the
vocabulary.
"""

import sys

import numpy as np
import sentencepiece
import tritonclient.grpc as triton

BEGIN, END, ROOM = 2, 3, 64  # ROOM: maximum number of tokens
BUNDLE = "model_repository/translate/1/bundle"


def infer(client, model, tensors):
    inputs = []
    for name, array in tensors.items():
        kind = "INT64" if array.dtype == np.int64 else "FP32"
        inputs.append(triton.InferInput(name, array.shape, kind))
        inputs[-1].set_data_from_numpy(array)
    answer = client.infer(model, inputs)
    return {output.name: answer.as_numpy(output.name) for output in answer.get_response().outputs}


def empty_cache(client):
    inputs = client.get_model_metadata("decoder").inputs
    past = {tensor.name: tensor.shape for tensor in inputs if tensor.name.startswith("past_")}
    return {  # [batch, heads, tokens, head size]
        name: np.zeros((1, heads, ROOM, head_size), np.float32)
        for name, (_, heads, _, head_size) in past.items()
    }


def translate(client, pieces, text, language):
    ids = [pieces.piece_to_id(f"<2{language}>"), *pieces.encode(text), END]
    src_lengths = np.array([len(ids)])
    cross = infer(client, "encoder", {"input_ids": np.array([ids]), "src_lengths": src_lengths})
    cache, said = empty_cache(client), [BEGIN]
    while said[-1] != END and len(said) < ROOM:
        row = {"input_ids": np.array(said[-1:]), "positions": np.array([len(said) - 1])}
        step = infer(client, "decoder", {**row, "src_lengths": src_lengths, **cross, **cache})
        said.append(int(step["logits"][0].argmax()))
        cache = {name: step[name.replace("past", "present")] for name in cache}
    return pieces.decode([token for token in said[1:] if token != END])


if __name__ == "__main__":
    vocabulary = sentencepiece.SentencePieceProcessor(model_file=f"{BUNDLE}/tokenizer.model")
    text, url = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "localhost:8001")
    print(translate(triton.InferenceServerClient(url), vocabulary, text, "en"))
