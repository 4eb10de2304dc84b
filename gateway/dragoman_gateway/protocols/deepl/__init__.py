"""DeepL's protocol, `/v2` and `/v3`."""
