"""Documents with markup as segments in place: the bytes of a document, of which some are text."""
