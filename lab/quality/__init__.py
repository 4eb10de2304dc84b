"""Properties of a bundle's translations besides BLEU."""
