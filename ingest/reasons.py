"""Why a broker cannot be used, in words that name the setting to look at."""

from __future__ import annotations

import socket
import ssl


def refusal_hint(reason: str) -> str:
    """What to look at where the broker refused the connection for this reason."""
    text = reason.lower()
    if "user name" in text or "authori" in text:
        return ": check mqtt.username and the password"
    if "identifier" in text:
        return ": check mqtt.client_id"
    return ""


def words(error: BaseException, host: str, *, tls: bool = False) -> str:
    """An error of the network or of TLS, with what to look at; ``tls`` where it was to begin just then."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        if "mismatch" in reason.lower() or "not valid for" in reason.lower():
            return f"the certificate is another host's ({reason}): check mqtt.host"
        if "expired" in reason.lower():
            return f"the broker's certificate is not valid today ({reason}): renew it, and check both clocks"
        return f"the certificate is not trusted ({reason}): check mqtt.ca_file"
    if isinstance(error, ssl.SSLError):
        return (
            f"TLS failed ({error.reason or error}): check mqtt.tls and mqtt.port, "
            "and mqtt.cert_file where it asks for one"
        )
    if tls and isinstance(error, ConnectionResetError):
        return "reset where TLS was to begin: does the broker speak it there? check mqtt.tls and mqtt.port"
    if isinstance(error, socket.gaierror):
        return (
            f"the name {host!r} cannot be resolved ({error.strerror}): check mqtt.host and this machine's DNS"
        )
    if isinstance(error, TimeoutError):
        return "no answer in time: check mqtt.host, mqtt.port and the firewall"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
