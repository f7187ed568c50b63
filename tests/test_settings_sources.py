"""Where settings come from: who wins, what is told about each, and how a mistake is traced to its file or variable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amble.errors import SettingsError
from amble.settings import Settings, fields
from amble.settings_sources import resolve


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder with a project in it; neither has settings yet."""
    (tmp_path / "config" / "amble").mkdir(parents=True)
    (tmp_path / "project" / "below").mkdir(parents=True)
    return tmp_path


def of(home: Path, said: dict[str, Any] | None = None, **environ: str) -> Any:
    return resolve(
        said,
        said_by="the command line",
        environ={"XDG_CONFIG_HOME": str(home / "config"), **environ},
        folder=home / "project" / "below",
    )


def test_a_flag_beats_the_environment_beats_the_project_beats_the_user_beats_the_default(home: Path) -> None:
    mine = home / "config" / "amble" / "amble.toml"
    ours = home / "project" / "amble.toml"
    mine.write_text("max_rate = 1\nmax_retries = 1\nmax_redirects = 1\ndns_lookups = 1\n")
    ours.write_text("max_rate = 2\nmax_retries = 2\nmax_redirects = 2\n")
    found = of(home, {"max_rate": "4"}, AMBLE_MAX_RATE="3", AMBLE_MAX_RETRIES="3")
    told = [
        (name, found.settings.value(name), found.source(name))
        for name in ("max_rate", "max_retries", "max_redirects", "dns_lookups", "dns_cache_s")
    ]
    assert told == [
        ("max_rate", 4.0, "the command line"),
        ("max_retries", 3, "AMBLE_MAX_RETRIES"),
        ("max_redirects", 2, str(ours)),
        ("dns_lookups", 1, str(mine)),
        ("dns_cache_s", 60.0, "default"),
    ]


def test_the_nearest_project_file_is_the_one_and_may_be_a_table_of_pyproject(home: Path) -> None:
    (home / "amble.toml").write_text("max_rate = 1\n")
    (home / "project" / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.amble]\nmax_retries = 2\n')
    (home / "project" / "below" / "pyproject.toml").write_text("[tool.other]\n")
    found = of(home)
    assert (found.settings.pacing.max_retries, found.settings.pacing.max_rate) == (2, 8.0), (
        "one file, not a sum of them"
    )


def test_somebody_elses_broken_pyproject_is_none_of_our_business(home: Path) -> None:
    (home / "project" / "pyproject.toml").write_text("this is = no toml = at all")
    assert of(home).named == {}


def test_lists_and_tables_of_a_file_reach_the_settings_and_paths_are_meant_from_there(home: Path) -> None:
    (home / "project" / "amble.toml").write_text(
        'accept_content_types = ["text/*"]\nfollow_links = false\nmax_rate = "unlimited"\nmax_crawl_pages = "none"\n'
        '[rules."*.shop.example"]\ndelay = 2\n'
    )
    user = home / "config" / "amble" / "amble.toml"
    user.parent.mkdir(parents=True, exist_ok=True)
    user.write_text('ca_file = "ca.pem"\n')
    (user.parent / "ca.pem").touch()
    settings = of(home).settings
    assert settings.visiting.accept_content_types == ("text/*",)
    assert (settings.visiting.follow_links, settings.pacing.max_rate) == (False, None)
    assert settings.visiting.max_crawl_pages is None
    assert settings.pacing.rules["*.shop.example"].delay == 2
    assert settings.fetching.ca_file == str(user.parent / "ca.pem")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_rate", "unlimited", None),
        ("max_rate", " 2.5 ", 2.5),
        ("max_crawl_pages", "none", None),
        ("follow_links", "auto", "auto"),
        ("follow_links", "TRUE", True),
        ("follow_links", "no", False),
        ("discover", "none", None),
        ("discover", "off", False),
        ("store_body", "0", False),
        ("accept_content_types", "text/html, text/*", ("text/html", "text/*")),
        ("accept_content_types", "none", ()),
        ("retry_statuses", "[403, 418]", (403, 418)),
        ("no_proxy", "a.test b.test,c.test", ("a.test", "b.test", "c.test")),
        ("user_agent", "none", "none"),
        ("pacing", "adaptive", "gauge"),
        ("timeout_seconds", "7", 7.0),
        ("job_failure_threshold", "3", 3),
    ],
)
def test_text_in_a_variable_means_what_a_person_expects(home: Path, name: str, text: str, value: object) -> None:
    found = of(home, None, **{f"AMBLE_{name.upper()}": text})
    assert found.settings.value({"timeout_seconds": "http_timeout"}.get(name, name)) == value
    assert of(home, {name: text}).settings == found.settings, "a flag is read alike"


def test_rules_as_json_where_there_are_no_tables(home: Path) -> None:
    rules = of(home, None, AMBLE_RULES='{"a.test": {"parallel": 2}}').settings.pacing.rules
    assert rules["a.test"].parallel == 2


def test_every_setting_can_be_given_by_a_variable_and_comes_back_as_it_was(home: Path) -> None:
    """One list of settings: what is a field is a variable, and its default can be written as text."""
    for _, name, info in fields():
        default = info.get_default(call_default_factory=True)
        if name == "rules":
            continue
        text = "none" if default is None or default == () else str(default)
        found = of(home, None, **{f"AMBLE_{name.upper()}": text})
        assert found.settings.value(name) == default, name
        assert found.source(name) == f"AMBLE_{name.upper()}"


def test_an_empty_variable_is_none_at_all(home: Path) -> None:
    assert of(home, None, AMBLE_MAX_RATE="").named == {}


def test_the_usual_proxy_variables_count_least_and_a_login_goes_with_its_proxy(home: Path) -> None:
    usual = {"https_proxy": "http://u:p@usual.test:1", "no_proxy": "a.test"}
    found = of(home, None, **usual)
    assert found.settings.fetching.http_proxy == "http://usual.test:1"
    assert "proxy variables" in found.source("http_proxy_username")
    user = home / "config" / "amble" / "amble.toml"
    user.parent.mkdir(parents=True, exist_ok=True)
    user.write_text('http_proxy = "http://ours.test:2"\n')
    ours = of(home, None, **usual).settings.fetching
    assert (ours.http_proxy, ours.http_proxy_username, ours.no_proxy) == ("http://ours.test:2", None, ("a.test",))
    user.write_text('http_proxy = "none"\n')
    assert of(home, None, **usual).settings.fetching.http_proxy is None


@pytest.mark.parametrize(
    ("file", "environ", "said", "parts", "hint"),
    [
        ("max_rat = 1", {}, {}, ["unknown setting 'max_rat'", "amble.toml"], "max_rate"),
        ("max_rate = -1", {}, {}, ["max_rate", "greater than 0", "amble.toml"], "max_rate"),
        ("max_rate = true", {}, {}, ["max_rate = true", "amble.toml"], "a number"),
        ("[crawl]\nmax_rate = 1", {}, {}, ["unknown setting 'crawl'", "amble.toml"], "did you mean"),
        ("max_rate 1", {}, {}, ["no TOML", "line 1", "amble.toml"], "name = value"),
        ("", {"AMBLE_MAX_RAT": "1"}, {}, ["AMBLE_MAX_RAT is no setting"], "AMBLE_MAX_RATE"),
        ("", {"AMBLE_MAX_RATE": "fast"}, {}, ["max_rate comes from AMBLE_MAX_RATE"], "highest rate"),
        ("", {"AMBLE_RULES": "a.test=2"}, {}, ["rules comes from AMBLE_RULES", "no JSON"], "amble.toml"),
        (
            "follow_links = false",
            {"AMBLE_MAX_CRAWL_DEPTH": "3"},
            {},
            ["follow_links comes from", "amble.toml", "max_crawl_depth comes from AMBLE_MAX_CRAWL_DEPTH"],
            "change one",
        ),
        ("http_timeout = 1\ntimeout_seconds = 2", {}, {}, ["http_timeout is given twice", "amble.toml"], "one of"),
        (
            "",
            {"AMBLE_HTTP_TIMEOUT": "1", "AMBLE_TIMEOUT_SECONDS": "1"},
            {},
            ["in the environment", "given twice"],
            "one of",
        ),
        ("", {}, {"http_timeout": "1", "timeout_seconds": "2"}, ["given twice"], "one of"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_the_nearest_name(
    home: Path, file: str, environ: dict[str, str], said: dict[str, Any], parts: list[str], hint: str
) -> None:
    (home / "project" / "amble.toml").write_text(file)
    with pytest.raises(SettingsError) as refused:
        of(home, said, **environ)
    for part in parts:
        assert part in refused.value.message
    assert refused.value.hint is not None
    assert hint in refused.value.hint


def test_the_two_names_of_one_setting_may_stand_on_two_levels(home: Path) -> None:
    assert of(home, {"timeout_seconds": 4}, AMBLE_HTTP_TIMEOUT="9").settings.fetching.http_timeout == 4


def test_two_project_files_in_one_folder_are_one_too_many(home: Path) -> None:
    (home / "project" / "amble.toml").write_text("")
    (home / "project" / "pyproject.toml").write_text("[tool.amble]\n")
    with pytest.raises(SettingsError, match=r"\[tool.amble\]"):
        of(home)


def test_what_was_gathered_is_what_a_job_stores_and_takes_up_again(home: Path) -> None:
    found = of(home, {"max_rate": "3"}, AMBLE_CONTACT="https://you.example/bot", AMBLE_TIMEOUT_SECONDS="5")
    assert Settings.of(found.settings.given()) == found.settings


@pytest.mark.parametrize(
    ("named", "identity", "mail", "anonymous"),
    [
        ({}, "amble/0.1", None, True),
        ({"contact": "https://you.example/bot"}, "amble/0.1 (+https://you.example/bot)", None, False),
        ({"contact": "bot@you.example"}, "amble/0.1 (+bot@you.example)", "bot@you.example", False),
        ({"contact": "bot@you.example", "from_address": "me@you.example"}, "amble/0.1 (+bot@you.example)",
         "me@you.example", False),
        ({"user_agent": "x/1 (+https://x.example)", "contact": "https://x.example"}, "x/1 (+https://x.example)", None,
         False),
        ({"user_agent": "x/1 (+https://x.example)"}, "x/1 (+https://x.example)", None, False),
        ({"from_address": "me@you.example"}, "amble/0.1", "me@you.example", False),
    ],
)  # fmt: skip
def test_who_we_say_we_are(named: dict[str, str], identity: str, mail: str | None, anonymous: bool) -> None:
    fetching = Settings.of(named).fetching
    assert (fetching.identity, fetching.from_header, fetching.is_anonymous) == (identity, mail, anonymous)


@pytest.mark.parametrize("contact", ["me", "ftp://x", "javascript:x", "a@b", "https://x (y)", "https://x\r\nX: y"])
def test_a_contact_is_a_page_or_a_mail_address(contact: str) -> None:
    with pytest.raises(SettingsError, match="contact"):
        Settings.of({"contact": contact})
