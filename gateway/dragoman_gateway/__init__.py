"""The gateway in front of the engine: APIs, a web page, keys, limits, a cache and documents.

`access`, `texts`, `glossaries` and `jobs` do the work for all protocols; `shared` has them in one
object. A protocol's package only converts requests, answers and errors. `web` handles HTTP.
`application` combines them.
"""
