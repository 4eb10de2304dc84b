"""Models by name: found, fetched, converted, checked, and kept in the user's cache folder."""
