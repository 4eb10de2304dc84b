"""Tests of KServe's protocol."""
