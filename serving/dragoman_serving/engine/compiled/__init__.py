"""The compiled Transformer with 8-bit products, for several CPU instruction sets."""
