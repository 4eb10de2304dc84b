"""The Transformer in 8-bit products, compiled: for CPUs with AVX-512 VNNI."""
