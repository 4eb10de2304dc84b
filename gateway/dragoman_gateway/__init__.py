"""The gateway: REST, a web page, keys, limits, a cache and documents before Triton.

`core` holds what every protocol shares. Each protocol has a package that translates shapes and
errors, and nothing else. `web` reads HTTP requests. `application` puts them together.
"""
