"""The decoding engine, from token ids to token ids; docs/engine.md explains it."""
