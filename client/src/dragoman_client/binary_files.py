"""Files that are no text, by how they begin."""

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
    """Refuse a file that is no text.

    Args:
        begin: its first bytes.
        name: of the file, for the message.

    Raises:
        ValueError: it is not; the message says what it is.
    """
    for signature, kind in _BEGINS:
        if begin.startswith(signature):
            raise ValueError(f"{name} is {kind}: save what is in it as text, HTML or XML")
