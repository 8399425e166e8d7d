"""Whether a SuperLink answers: for health checks of containers and monitoring."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from pathlib import Path

from ..errors import ConfigError, RunError


def check_superlink(address: str, certificate: Path | None, timeout: float = 5.0) -> None:
    """RunError if the SuperLink at ``address`` (host:port) is not healthy; TLS where its CA's certificate is given."""
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise ConfigError(f"the address must be HOST:PORT, not '{address}'")
    context = None
    if certificate is not None:
        try:
            context = ssl.create_default_context(cafile=str(certificate))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot read {certificate}: {error}") from None
    url = f"{'http' if context is None else 'https'}://{host}:{port}/health"
    try:
        with urllib.request.urlopen(url, timeout=timeout, context=context):
            return
    except urllib.error.HTTPError as error:
        with error:
            raise RunError(f"the SuperLink at {address} is not healthy: HTTP status {error.status}") from None
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise RunError(f"the SuperLink at {address} does not answer: {reason}") from None
