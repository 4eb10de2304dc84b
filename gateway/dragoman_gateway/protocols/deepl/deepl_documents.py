"""Documents in DeepL's form: uploaded, accessed with a document key, downloaded once."""

from __future__ import annotations

import hashlib
import hmac
import math
from typing import Any

from dragoman_gateway.core.errors import NotFound
from dragoman_gateway.jobs.job import Job

_STATUSES = {
    "queued": "queued",
    "translating": "translating",
    "done": "done",
    "failed": "error",
    "cancelled": "error",
}
_KEYS_FOR = b"document_key of a document's id: "


def written_id(job: Job) -> str:
    """Returns the id of a document in DeepL's form."""
    return job.id.upper()


def document_key(job_id: str) -> str:
    """Returns the key of a document.

    It is derived from the id, which cannot be guessed, so the key need not be stored.
    """
    return hashlib.sha256(_KEYS_FOR + job_id.lower().encode()).hexdigest().upper()


def check_key(job_id: str, given: str) -> None:
    """Check the key of a request.

    Raises:
        NotFound: the key does not belong to the document.
    """
    if not hmac.compare_digest(given.upper().encode(), document_key(job_id).encode()):
        raise NotFound("Document not found: document_id and document_key do not belong together")


def written_status(job: Job) -> dict[str, Any]:
    """Returns the progress of a document."""
    status: dict[str, Any] = {"document_id": written_id(job), "status": _STATUSES[job.state]}
    if job.state == "translating" and job.seconds_remaining is not None:
        status["seconds_remaining"] = math.ceil(job.seconds_remaining)
    if job.state == "done":
        status["billed_characters"] = job.characters or 0
    if status["status"] == "error":
        status["error_message"] = str(job.error) if job.error else "The translation was cancelled"
    return status
