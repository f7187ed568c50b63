"""Whose certificates are believed when no file is named: the system's bundle, else the one that certifi carries."""

from __future__ import annotations

import ssl
from pathlib import Path

import certifi

from amble.errors import SettingsError
from amble.fetcher.settings import FetcherSettings

# The library we link may have been built for another system, so its own default path says little.
_USUAL = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def ca_file_of(settings: FetcherSettings) -> str:
    """The file that is to be used. Raises SettingsError where it is named and is not there."""
    path = settings.ca_file or default_ca_file()
    if not Path(path).is_file():
        raise SettingsError(f"ca_file = {path!r}: no such file", hint="name a PEM file of authorities")
    return path


def default_ca_file() -> str:
    """A PEM file of authorities. `SSL_CERT_FILE` is honoured, as OpenSSL does."""
    for path in (ssl.get_default_verify_paths().cafile, *_USUAL):
        if path and Path(path).is_file():
            return path
    return certifi.where()
