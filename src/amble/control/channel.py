"""One question, one answer, as lines of JSON between two processes of the same user.

A Unix socket with mode 0600; where there are none, a port on loopback whose number and token lie in a file with mode
0600. A socket that nobody listens to was left behind by a process that was killed, and is removed.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from amble.control.places import places
from amble.errors import AmbleError, StoreError

Answer = Callable[[str, dict[str, Any]], Any]

QUESTION_BYTES_MAX = 1 << 20
PATIENCE_S = 60.0  # a question may be a query
HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")


class Listener:
    """Listens beside a file until it is closed. Each caller has a thread; `answer` is called on it."""

    def __init__(self, file: str | os.PathLike[str], answer: Answer, *, unix: bool = HAS_UNIX_SOCKETS) -> None:
        self._answer = answer
        self._token = "" if unix else secrets.token_urlsafe(32)
        self._socket, self.place = _bind_unix(file) if unix else _bind_loopback(file, self._token)
        self._socket.listen(16)
        self._thread = threading.Thread(target=self._accept, name="amble-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()
        with suppress(OSError):
            self.place.unlink()
        self._thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(caller,), name="amble-caller", daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with suppress(OSError), caller:
            caller.settimeout(PATIENCE_S)
            while (line := _read_line(caller, QUESTION_BYTES_MAX)) is not None:
                caller.sendall(json.dumps(self._reply(line), default=str).encode() + b"\n")

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            said = json.loads(line)
            question, details = said["ask"], said.get("details", {})
            if not secrets.compare_digest(str(said.get("token", "")).encode(), self._token.encode()):
                raise AmbleError("wrong token", hint="ask with `amble` as the user who crawls")
            return {"answer": self._answer(question, details)}
        except AmbleError as error:
            return {"error": error.message, "hint": error.hint}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return {"error": f"this question is not understood: {error}", "hint": "see `amble --help`"}
        except Exception as error:  # whatever goes wrong here must not look like silence
            return {"error": f"{type(error).__name__}: {error}", "hint": None}


class Nobody(Exception):
    """No process listens for this file."""


def ask(file: str | os.PathLike[str], question: str, timeout_s: float = PATIENCE_S, **details: Any) -> Any:
    """What the process that has this file open answers. Raises `Nobody` if there is none, and what it raises there."""
    said: dict[str, Any] = {"ask": question, "details": details}
    with _connect(file, said) as line_to:
        line_to.settimeout(timeout_s)
        try:
            line_to.sendall(json.dumps(said, default=str).encode() + b"\n")
            line = _read_line(line_to)
        except TimeoutError:
            raise StoreError(
                f"the process that crawls into {file} does not answer", hint="see whether it is suspended or stuck"
            ) from None
        except OSError:
            line = None
    if line is None:
        raise Nobody(f"{file} was let go of just now")
    reply = json.loads(line)
    if "error" in reply:
        raise StoreError(reply["error"], hint=reply.get("hint"))
    return reply["answer"]


def _connect(file: str | os.PathLike[str], said: dict[str, Any]) -> socket.socket:
    for place in places(file):
        if not place.exists():
            continue
        try:
            return _connect_to(place, said)
        except (ConnectionRefusedError, FileNotFoundError):
            with suppress(OSError):
                place.unlink()  # of a process that was killed
        except PermissionError:
            raise StoreError(f"{file} is being crawled by another user", hint="ask as that user") from None
    raise Nobody(f"nobody has {file} open")


def _connect_to(place: Path, said: dict[str, Any]) -> socket.socket:
    if place.is_socket():
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address: Any = str(place)
    else:
        port, _, said["token"] = place.read_text(encoding="ascii").partition(" ")
        caller = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        address = ("127.0.0.1", int(port))
    try:
        caller.connect(address)
    except BaseException:
        caller.close()
        raise
    return caller


def _bind_unix(file: str | os.PathLike[str]) -> tuple[socket.socket, Path]:
    refused: OSError | None = None
    for place in places(file):
        with suppress(OSError):
            place.unlink()  # the lock on the file is ours, so whoever listened here is gone
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            bound.bind(str(place))
        except OSError as error:  # a disk that knows no sockets, or does not let us
            bound.close()
            refused = error
        else:
            return bound, place
        finally:
            os.umask(before)
    raise StoreError(f"no place to listen for {file}: {refused}", hint="see that its folder can be written")


def _bind_loopback(file: str | os.PathLike[str], token: str) -> tuple[socket.socket, Path]:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.bind(("127.0.0.1", 0))
    refused: OSError | None = None
    for place in places(file):
        try:
            with suppress(FileNotFoundError):
                place.unlink()
            note = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(note, "w", encoding="ascii") as text:
                text.write(f"{bound.getsockname()[1]} {token}")
            return bound, place
        except OSError as error:
            refused = error
    bound.close()
    raise StoreError(f"no place to listen for {file}: {refused}", hint="see that its folder can be written")


def _read_line(peer: socket.socket, bytes_max: int | None = None) -> bytes | None:
    """Up to the end of a line; None at the end of all."""
    parts: list[bytes] = []
    length = 0
    while not parts or not parts[-1].endswith(b"\n"):
        part = peer.recv(1 << 16)
        if not part:
            return None
        parts.append(part)
        length += len(part)
        if bytes_max is not None and length > bytes_max:
            return None
    return b"".join(parts)
