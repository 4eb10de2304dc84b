"""From texts to translations: sentences out of texts, answers out of sentences."""
