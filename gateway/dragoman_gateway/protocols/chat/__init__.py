"""The protocol of OpenAI's chat completions, for translation requests."""
