"""What a bundle's translations are like, beside BLEU."""
