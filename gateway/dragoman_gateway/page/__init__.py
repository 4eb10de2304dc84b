"""The web page at `/`, and its visualization of attention."""
