"""Small translation protocols of browser extensions."""
