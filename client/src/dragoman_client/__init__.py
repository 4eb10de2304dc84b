"""Client of the Dragoman translation service, over gRPC or HTTP.

Start with `Translator`, or with `AsyncTranslator` under asyncio; README.md has examples.
"""

from dragoman_options.assessment import Attention, SoftAlignment, TokenScores, WordAlignment
from dragoman_options.table import Translation

from dragoman_client.async_translator import AsyncTranslator
from dragoman_client.core.errors import (
    AccessDenied,
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    TranslationError,
)
from dragoman_client.core.health import Health
from dragoman_client.core.pair_scoring import PairScore
from dragoman_client.core.server_info import LanguagePair, ServerInfo
from dragoman_client.files.documents import Document
from dragoman_client.files.file_report import FileReport
from dragoman_client.files.file_translation import FileProgress
from dragoman_client.files.glossary_files import format_glossary, parse_glossary, read_glossary
from dragoman_client.files.line_formats import JsonLines, PlainLines, PlainLinesToJson, TabColumns
from dragoman_client.translator import Translator
from dragoman_client.version import __version__

__all__ = [
    "AccessDenied",
    "AsyncTranslator",
    "Attention",
    "DeadlineExceeded",
    "Document",
    "FileProgress",
    "FileReport",
    "Health",
    "InvalidRequest",
    "JsonLines",
    "LanguagePair",
    "PairScore",
    "PlainLines",
    "PlainLinesToJson",
    "ServerError",
    "ServerInfo",
    "ServerUnavailable",
    "SoftAlignment",
    "TabColumns",
    "TokenScores",
    "Translation",
    "TranslationError",
    "Translator",
    "WordAlignment",
    "__version__",
    "format_glossary",
    "parse_glossary",
    "read_glossary",
]
