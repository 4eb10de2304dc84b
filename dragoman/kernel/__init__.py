"""What all parts share: errors, settings, the manifest, text, sentences and tensor names."""
