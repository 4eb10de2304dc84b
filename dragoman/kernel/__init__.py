"""Code that all packages share: errors, settings, manifest, text, sentences and tensor names."""
