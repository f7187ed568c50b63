"""One question, one answer, as lines of JSON between two processes of the same user.

A Unix socket with mode 0600; where there are none, a port on loopback whose number and token lie in a file with mode
0600. Whoever is at the other end must be the same user, and so must the owner of the place: in a folder that others
can write, anybody could answer for a file. A socket that nobody listens to was left behind by a process that was
killed, and is removed; anything else that goes by its name is left alone.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import select
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from amble.control.places import places
from amble.errors import AmbleError, StoreError

Answer = Callable[[str, dict[str, Any]], Any]

QUESTION_BYTES_MAX = 1 << 20
ANSWER_BYTES_MAX = 1 << 28
PATIENCE_S = 60.0  # a question may be a query
IDLE_S = 10.0  # a caller who says nothing for so long is let go
CALLERS_MAX = 32
SHORT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED, errno.EINTR})
SHORT_WAIT_S = 0.2
HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")
_NOTE_BYTES_MAX = 200

_caller = threading.local()


def caller_has_gone() -> bool:
    """Whether whoever asked the question that this thread answers has hung up."""
    caller: socket.socket | None = getattr(_caller, "socket", None)
    if caller is None:
        return False
    try:
        readable = select.select([caller], [], [], 0)[0]
        return bool(readable) and caller.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):
        return True


class Listener:
    """Listens beside a file until it is closed. Each caller has a thread; `answer` is called on it."""

    def __init__(self, file: str | os.PathLike[str], answer: Answer, *, unix: bool = HAS_UNIX_SOCKETS) -> None:
        self._answer = answer
        self._token = "" if unix else secrets.token_urlsafe(32)
        self._closed = threading.Event()
        self._callers = threading.BoundedSemaphore(CALLERS_MAX)
        self._socket, self.place = _bind_unix(file) if unix else _bind_loopback(file, self._token)
        self._thread = threading.Thread(target=self._accept, name="amble-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()
        with suppress(OSError):
            self.place.unlink()
        self._thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                caller, _ = self._socket.accept()
            except OSError as fault:
                if fault.errno not in SHORT_OF:
                    return  # closed
                time.sleep(SHORT_WAIT_S)  # the crawl has every descriptor just now; others will be given back
                continue
            self._begin(caller)

    def _begin(self, caller: socket.socket) -> None:
        if not self._callers.acquire(blocking=False):
            with suppress(OSError), caller:
                caller.settimeout(SHORT_WAIT_S)
                _send(caller, {"error": "too many are asking at once", "hint": "ask again in a while"})
            return
        try:
            threading.Thread(target=self._serve, args=(caller,), name="amble-caller", daemon=True).start()
        except RuntimeError:  # no more threads
            self._callers.release()
            caller.close()

    def _serve(self, caller: socket.socket) -> None:
        try:
            with suppress(OSError), caller:
                if not _is_trusted(caller, {os.getuid(), 0} if hasattr(os, "getuid") else set()):
                    return
                _caller.socket = caller
                while (
                    line := _read_line(caller, QUESTION_BYTES_MAX, IDLE_S)
                ) is not None and not self._closed.is_set():
                    reply = self._reply(line)
                    if self._closed.is_set() and "error" in reply:
                        return  # the file was let go of meanwhile: whoever asks finds it free
                    caller.settimeout(PATIENCE_S)
                    _send(caller, reply)
        finally:
            _caller.socket = None
            self._callers.release()

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
        try:
            line_to.settimeout(timeout_s)
            _send(line_to, said)
            line = _read_line(line_to, ANSWER_BYTES_MAX, timeout_s)
        except TimeoutError:
            raise StoreError(
                f"the process that crawls into {file} does not answer", hint="see whether it is suspended or stuck"
            ) from None
        except OSError:
            line = None
    if line is None:
        raise Nobody(f"{file} was let go of just now")
    try:
        reply = json.loads(line)
        if "error" in reply:
            raise StoreError(str(reply["error"]), hint=reply.get("hint"))
        return reply["answer"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StoreError(f"what listens for {file} does not speak as amble does", hint="see what has it open") from None


def _connect(file: str | os.PathLike[str], said: dict[str, Any]) -> socket.socket:
    ours = _owners(file)
    for place in places(file):
        try:
            found = place.lstat()
        except OSError:
            continue
        if ours and found.st_uid not in ours:
            continue  # somebody else's: whatever answers there does not answer for us
        try:
            caller = _connect_to(place, found, said)
        except (ConnectionRefusedError, FileNotFoundError):
            _remove_left(place, found)
            continue
        except BlockingIOError:
            raise StoreError(
                f"the process that crawls into {file} has too many questions waiting", hint="ask again in a while"
            ) from None
        except PermissionError:
            raise StoreError(f"{file} is being crawled by another user", hint="ask as that user") from None
        except OSError:
            continue
        if caller is not None and _is_trusted(caller, ours):
            return caller
        if caller is not None:
            caller.close()
    raise Nobody(f"nobody has {file} open")


def _owners(file: str | os.PathLike[str]) -> set[int]:
    """Who may answer for a file: we ourselves; to root, its owner as well. Empty where there are no such numbers."""
    if not hasattr(os, "getuid"):
        return set()
    owners = {os.getuid()}
    if os.getuid() == 0:
        with suppress(OSError):
            owners.add(os.stat(file).st_uid)
    return owners


def _is_trusted(peer: socket.socket, users: set[int]) -> bool:
    """Whether the process at the other end belongs to one of these users, where the system tells."""
    if peer.family != getattr(socket, "AF_UNIX", None) or not hasattr(socket, "SO_PEERCRED"):
        return True
    told = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", told)[1] in users


def _remove_left(place: Path, found: os.stat_result) -> None:
    """What a killed process left. By now somebody may have taken its place: that is put back."""
    aside = place.with_name(f"{place.name}-{os.getpid()}-{threading.get_ident()}")
    with suppress(OSError):
        if not _is_same(place.lstat(), found):
            return
        place.rename(aside)
        if _is_same(aside.lstat(), found):
            aside.unlink()
        else:
            aside.rename(place)


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_mtime_ns) == (other.st_ino, other.st_mtime_ns)


def _connect_to(place: Path, found: os.stat_result, said: dict[str, Any]) -> socket.socket | None:
    """None: what lies there is neither a socket nor a note of ours."""
    if stat.S_ISSOCK(found.st_mode):
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address: Any = str(place)
    else:
        note = _read_note(place)
        if note is None:
            return None
        port, said["token"] = note
        caller = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        address = ("127.0.0.1", port)
    try:
        caller.settimeout(IDLE_S)
        caller.connect(address)
    except BaseException:
        caller.close()
        raise
    return caller


def _read_note(place: Path) -> tuple[int, str] | None:
    """Port and token. A folder, a pipe or any other file is not read."""
    try:
        note = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(note).st_mode):
            return None
        port, _, token = os.read(note, _NOTE_BYTES_MAX).decode("ascii").partition(" ")
        return (int(port), token) if 0 < int(port) < 65536 and token else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(note)


def _is_free(place: Path) -> bool:
    """Whether a listener may take a place: nothing is there, or what one of ours left. The lock on the file is ours, so
    whoever listened there is gone."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) or _read_note(place) is not None


def _bind_unix(file: str | os.PathLike[str]) -> tuple[socket.socket, Path]:
    """The socket listens before it goes by its name, so nobody takes it for one that was left."""
    refused: OSError | None = None
    for place in places(file):
        if not _is_free(place):
            continue
        making = place.with_name(f"{place.name}~")
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(FileNotFoundError):
                making.unlink()
            before = os.umask(0o177)
            try:
                bound.bind(str(making))
            finally:
                os.umask(before)
            bound.listen(2 * CALLERS_MAX)
            making.rename(place)
        except OSError as error:  # a disk that knows no sockets, or does not let us
            bound.close()
            with suppress(OSError):
                making.unlink()
            refused = error
        else:
            return bound, place
    raise StoreError(f"no place to listen for {file}: {refused}", hint="see that its folder can be written")


def _bind_loopback(file: str | os.PathLike[str], token: str) -> tuple[socket.socket, Path]:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.bind(("127.0.0.1", 0))
    bound.listen(2 * CALLERS_MAX)
    refused: OSError | None = None
    for place in places(file):
        if not _is_free(place):
            continue
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


def _send(peer: socket.socket, said: dict[str, Any]) -> None:
    peer.sendall(json.dumps(said, default=str).encode() + b"\n")


def _read_line(peer: socket.socket, bytes_max: int, patience_s: float) -> bytes | None:
    """Up to the end of a line, within so long; None at the end of all."""
    until = time.monotonic() + patience_s
    parts: list[bytes] = []
    length = 0
    while not parts or not parts[-1].endswith(b"\n"):
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        peer.settimeout(left_s)
        part = peer.recv(1 << 16)
        if not part:
            return None
        parts.append(part)
        length += len(part)
        if length > bytes_max:
            return None
    return b"".join(parts)
