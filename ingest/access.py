"""Password and TLS files, read at every connection: what changed on disk is used at the next one."""

from __future__ import annotations

import ssl
from pathlib import Path


class AccessError(Exception):
    """A file that is needed to reach the broker cannot be used; the text names the setting."""


def password(given: str | None, file: Path | None) -> str | None:
    """The password as given, or from its file.

    Raises
    ------
    AccessError
    """
    if file is None:
        return given
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"mqtt.password_file {file} cannot be read: {_why(error)}") from None


def tls_context(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext:
    """Whom to trust (the system's authorities without a file), and a certificate of our own where one is named.

    Raises
    ------
    AccessError
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise AccessError(f"mqtt.ca_file {ca_file} cannot be used: {_why(error)}") from None
    if cert_file is not None:
        try:
            context.load_cert_chain(cert_file, key_file)
        except (OSError, ssl.SSLError) as error:
            raise AccessError(
                f"mqtt.cert_file {cert_file} with mqtt.key_file {key_file or 'in it'} cannot be used: {_why(error)}"
            ) from None
    return context


def _why(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return f"no certificate or key in PEM form that fits ({error.reason or error})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
