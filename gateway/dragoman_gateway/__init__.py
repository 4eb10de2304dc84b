"""The gateway in front of Triton: REST APIs, a web page, keys, limits, a cache and documents.

`core` has what all protocols share. Each protocol has a package that only converts requests,
answers and errors. `web` handles HTTP. `application` combines them.
"""
