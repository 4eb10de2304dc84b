"""Models by name: found, downloaded, converted, checked, and kept in the user's cache folder."""
