"""A model's ``config.json`` from the Hugging Face hub, when the ``hub`` extra is there and the hub answers."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

_TIMEOUT_SECONDS = 3.0


def _answers(endpoint: str) -> bool:
    """Whether the hub's host takes a connection: asked first, because the hub's client retries for half a minute."""
    if getproxies():
        return True
    url = urlsplit(endpoint)
    port = url.port or (80 if url.scheme == "http" else 443)
    try:
        socket.create_connection((url.hostname or "", port), timeout=_TIMEOUT_SECONDS).close()
    except OSError:
        return False
    return True


def download_config(identifier: str) -> Path | None:
    """The cached or downloaded file of ``owner/name``; None when it cannot be had, whatever the cause."""
    try:
        import huggingface_hub  # noqa: PLC0415  (an optional extra, and slow to import)
    except ImportError:
        return None
    try:
        cached = huggingface_hub.try_to_load_from_cache(identifier, "config.json")
        if isinstance(cached, str):
            return Path(cached)
        if huggingface_hub.constants.HF_HUB_OFFLINE or not _answers(huggingface_hub.constants.ENDPOINT):
            return None
        return Path(huggingface_hub.hf_hub_download(identifier, "config.json", etag_timeout=_TIMEOUT_SECONDS))
    except Exception:  # noqa: BLE001  (the client's releases raise from requests, httpx and their own trees)
        return None
