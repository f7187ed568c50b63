"""What the doctor finds: each thing good on a sound machine, and bad with a hint where it is."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from amble.cli import main
from amble.cli.doctor import certificates, contact, disk, identity, names, open_files, proxy
from amble.settings import Settings


def test_a_sound_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["doctor", "--host", "localhost", "--into", str(tmp_path / "x.duckdb"), "--json"]
    assert main(words) == 0
    found = {finding["what"]: finding["state"] for finding in json.loads(capsys.readouterr().out)}
    assert found.pop("contact") == "warning"
    assert set(found.values()) == {"good"}
    assert {"identity", "names", "proxy", "disk", "duckdb", "open files"} <= set(found)
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


def test_settings_that_cannot_be_read_are_a_finding_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMBLE_MAX_RAT", "1")
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--host", "localhost"]) == 1
    out = capsys.readouterr().out
    assert "bad      settings" in out
    assert "AMBLE_MAX_RATE" in out


def test_who_we_are() -> None:
    named = Settings.of({"user_agent": "yourbot/1.0", "contact": "me@you.example"})
    assert "'yourbot'" in identity(named).found
    assert "From: me@you.example" in identity(named).found
    assert (contact(named).state, contact(Settings()).state) == ("good", "warning")
    assert identity(Settings.of({"user_agent": "123"})).state == "bad"


def test_a_name_that_does_not_exist() -> None:
    assert names("no-such-name.invalid").state == "bad"


def test_a_proxy_that_listens_and_one_that_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = Settings.of({"http_proxy": f"http://127.0.0.1:{server.getsockname()[1]}"})
        assert proxy(settings).state == "good"
    assert proxy(settings).state == "bad"


def test_files_that_are_missing(tmp_path: Path) -> None:
    assert certificates(Settings.of({"ca_file": str(tmp_path / "none.pem")})).state == "bad"
    with pytest.raises(OSError, match="no folder"):
        disk(tmp_path / "none" / "x.duckdb")


def test_too_few_open_files_name_the_way_out() -> None:
    finding = open_files(10**9)
    assert finding.state == "bad"
    assert "max_total_connections" in finding.hint
