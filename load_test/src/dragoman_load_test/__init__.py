"""Load tests of a translation server: throughput, latency and capacity.

Command: `dragoman load-test`. Of this project's packages it imports only `dragoman_client` and
`dragoman_options`, for addresses, credentials, options and errors.
"""
