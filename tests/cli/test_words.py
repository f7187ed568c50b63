"""The words of the command line: what is not known is answered with what is near; shells complete the rest."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from amble.cli import main
from amble.cli.arguments import make_parser, verbs_of
from amble.cli.exits import Exit, exit_of
from amble.jobs import JobResult
from amble.settings import fields
from amble.store.seam import JobStatus


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "a verb is missing"),
        (["crwl", "http://a.test/"], "did you mean 'crawl'?"),
        (["crawl", "http://a.test/", "--max-rat", "3"], "did you mean --max-rate?"),
        (["crawl", "http://a.test/", "--max-rat=3"], "did you mean --max-rate?"),
        (["jobs"], "FILE"),
        (["jobs", "x.duckdb", "--jsn"], "did you mean --json?"),
        (["resume", "x.duckdb", "one"], "invalid int value"),
        (["config", "shw"], "did you mean 'show'?"),
        (["--versio"], "'--versio' is not known here"),
    ],
)
def test_unknown_words_end_with_2_and_a_hint(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == Exit.USAGE
    error = capsys.readouterr().err
    assert said in error
    assert "hint:" in error


def test_every_verb_gives_json_and_every_setting_is_a_flag() -> None:
    verbs = verbs_of(make_parser())
    assert [name for name, verb in verbs.items() if "--json" not in verb.flags()] == ["completion"]
    wanted = {f"--{name.replace('_', '-')}" for _, name, _ in fields()} | {"--timeout-seconds"}
    assert wanted <= set(verbs["crawl"].flags())


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("amble 0.")


@pytest.mark.parametrize(
    ("status", "left_out", "code"),
    [
        (JobStatus.COMPLETED, {}, 0),
        (JobStatus.COMPLETED, {"nofollow": 3}, 0),
        (JobStatus.COMPLETED_WITH_ERRORS, {}, 3),
        (JobStatus.FAILED, {}, 3),
        (JobStatus.COMPLETED, {"max_crawl_pages": 3}, 4),
        (JobStatus.COMPLETED, {"max_crawl_pages": 0}, 0),
        (JobStatus.COMPLETED_WITH_ERRORS, {"max_pages_per_domain": 3}, 3),
        (JobStatus.CANCELLED, {"max_crawl_pages": 3}, 6),
        (JobStatus.DEFERRED, {"max_crawl_pages": 1}, 5),
        (JobStatus.PAUSED, {}, 130),
        (JobStatus.RUNNING, {}, 1),
    ],
)
def test_how_a_crawl_ends_as_a_number(status: JobStatus, left_out: dict[str, int], code: int) -> None:
    result = JobResult(1, status)
    result.left_out.update(left_out)
    assert exit_of(result) == code


@pytest.mark.parametrize(
    ("pages", "stored", "skipped", "code"),
    [(0, 0, 1, 3), (1, 0, 1, 0), (0, 1, 1, 0), (0, 0, 0, 0)],
    ids=["nothing could be crawled", "something could", "it was there already", "there was nothing to do"],
)
def test_where_nothing_could_be_crawled_the_number_says_so(pages: int, stored: int, skipped: int, code: int) -> None:
    """As where robots.txt disallows the only seed, or its address is forbidden."""
    result = JobResult(1, JobStatus.COMPLETED, pages=pages, stored=stored, skipped=skipped)
    assert exit_of(result) == code


def test_config_show_says_where_each_setting_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AMBLE_MAX_RATE", "2")
    monkeypatch.setenv("https_proxy", "http://user:secret@proxy.test:1")
    (tmp_path / "amble.toml").write_text('accept_content_types = ["text/*"]\n[rules."a.test"]\ndelay = 3\n')
    assert main(["config", "show", "--json"]) == 0
    out = capsys.readouterr().out
    assert "secret" not in out
    found = json.loads(out)
    assert set(found) == {name for _, name, _ in fields()}
    assert found["max_rate"] == {"value": 2.0, "source": "AMBLE_MAX_RATE"}
    assert found["accept_content_types"] == {"value": ["text/*"], "source": str(tmp_path / "amble.toml")}
    assert found["rules"]["value"] == {"a.test": {"delay": 3.0}}
    assert found["max_retries"] == {"value": 5, "source": "default"}
    assert main(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(found) + 1
    assert any(line.split() == ["max_rate", "2", "AMBLE_MAX_RATE"] for line in lines)


def test_a_bad_setting_in_the_environment_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMBLE_MAX_RAT", "2")
    assert main(["crawl", "http://a.test/"]) == Exit.USAGE
    assert "AMBLE_MAX_RATE" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_verb_and_flag(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, verb in verbs_of(make_parser()).items():
        assert name in script
        for flag in verb.flags():
            assert (flag if shell != "fish" else flag.removeprefix("--")) in script
    program = shutil.which(shell)
    if program is not None:
        assert subprocess.run([program, "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["amble", "cr"], ["crawl"]),
        (["amble", "crawl", "--max-ra"], ["--max-rate"]),
        (["amble", "config", "s"], ["show"]),
        (["amble", "completion", "z"], ["zsh"]),
        (["amble", "jobs", "x.du"], ["x.duckdb"]),
    ],
)
def test_bash_completes(
    typed: list[str], offered: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    main(["completion", "bash"])
    script = capsys.readouterr().out
    (tmp_path / "x.duckdb").touch()
    ask = f"COMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}; _amble; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    ran = subprocess.run([bash, "-c", f"{script}\n{ask}"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == offered
