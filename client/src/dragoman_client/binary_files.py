"""Detection of binary files by their first bytes."""

from __future__ import annotations

_BEGINS = (
    (b"PK\x03\x04", "a ZIP archive, as DOCX, ODT and EPUB are"),
    (b"%PDF-", "a PDF"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document, as DOC and XLS are"),
    (rb"{\rtf", "an RTF document"),
    (b"\x1f\x8b", "compressed by gzip"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
)


def check_not_binary(begin: bytes, name: str) -> None:
    """Refuse a binary file.

    Args:
        begin: first bytes of the file.
        name: name of the file, for the message.

    Raises:
        ValueError: the file is binary; the message names its type.
    """
    for signature, kind in _BEGINS:
        if begin.startswith(signature):
            raise ValueError(f"{name} is {kind}: save its content as text, HTML or XML")
