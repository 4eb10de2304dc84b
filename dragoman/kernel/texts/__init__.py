"""The text itself: sentences, clauses, tags, the matching of terms, its language."""
