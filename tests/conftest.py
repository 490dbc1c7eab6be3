"""What several tests share: a library that holds the example documents, made once by the real command line."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import settings

import forked
import postgres_server
from memory_desk import copied, open_either
from refdesk import Refdesk
from wire_server import WireServer

# The same examples at every run: what must pass before anything lands must not hang on luck. To look for new ones:
# HYPOTHESIS_PROFILE=search make unit
settings.register_profile("fixed", derandomize=True)
settings.register_profile("search", max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# A library of who runs the tests is none of theirs; further below, those that lie in PostgreSQL say so by it.
os.environ.pop("REFDESK_DATABASE_URL", None)

# Shells let what runs in their background ignore Ctrl-C, and every program that a test starts and interrupts would too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What takes longest begins first: the tests of a file stay together, and nobody waits for the last of the long ones.
LONGEST = (
    *("quality", "patterns", "processes", "http_documents", "page_interruptions", "page_documents", "golden", "adding"),
    *("ask", "cli", "uploads", "page_ask", "mcp", "http_serve", "page_looks", "page_rest", "http_figures"),
    *("http_streams", "cli_text", "page_places", "failing_models", "restore", "moving", "cli_ask", "page_focus"),
    *("crash", "trim"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    files = {path: place for place, path in enumerate(dict.fromkeys(item.path for item in items))}
    items.sort(key=lambda item: (places.get(item.path.stem, len(LONGEST)), files[item.path]))


def pytest_collection_finish() -> None:
    """Three thousand tests are half a million objects. Looking through them again and again takes .4 s each time."""
    gc.collect()
    gc.freeze()


ROOT = Path(__file__).parent.parent
DOCUMENTS = ROOT / "examples" / "documents"
REFDESK = Path(sys.executable).with_name("refdesk")


def run_refdesk(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line as a user runs it, without a library of the user's own in the way."""
    return forked.run([*map(str, arguments)], forked.environment(environment), seconds=240)


@pytest.fixture(scope="session")
def examples_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the examples in it; never opened, only copied. Made once for all processes of the tests."""
    if prepared := os.environ.get("REFDESK_TEST_EXAMPLES"):  # of scripts/mutate.py
        return Path(prepared)
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, made = base / "examples" / "library", base / "examples-made"
    with FileLock(base / "examples.lock"):
        if not made.exists():
            done = run_refdesk("--library", folder, "add", DOCUMENTS, REFDESK_DATABASE_URL="")
            assert done.returncode == 0, done.stderr
            made.touch()
    return folder


# Suites about asking run on every kind of store: a file of tests says so by `STORES = KINDS`, or `STORES = ON_DISK`
# where it also opens folders or starts programs. Its tests then get `examples`, `own_examples`, `desk`, `own_folder`
# and `shared_folder` in each of them, and `store_kind` says which it is. What can only be tested of some is marked
# `only_on(…, reason=…)`. Elsewhere these fixtures are a folder with SQLite.
#
# Of a library in PostgreSQL the folder holds the files alone; where its database is, REFDESK_DATABASE_URL says while
# the test runs, to `Refdesk(folder)` and to every command.


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kinds = getattr(metafunc.module, "STORES", ())
    if kinds and "store_kind" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only_on")
        metafunc.parametrize("store_kind", only.args if only else kinds, indirect=True)


@pytest.fixture(scope="session")
def store_kind(request: pytest.FixtureRequest) -> str:
    """The kind of store that the test runs on."""
    return str(getattr(request, "param", "sql"))


@pytest.fixture(scope="session")
def examples(store_kind: str, request: pytest.FixtureRequest) -> Any:
    """The examples to read and search; a test that changes them takes `own_examples`."""
    return request.getfixturevalue(f"examples_in_{store_kind}")


@pytest.fixture(scope="session")
def examples_in_sql(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("shared") / "library"
    with _copy("sql", folder, request) as url, Refdesk(folder, database=url) as desk:
        yield desk


@pytest.fixture(scope="session")
def examples_in_memory(examples_in_sql: Refdesk) -> Any:
    return copied(examples_in_sql)


@pytest.fixture(scope="session")
def examples_database(examples_in_sql: Refdesk) -> Iterator[str]:
    """The examples in PostgreSQL, never opened, only copied: that takes a tenth of `migrate`."""
    with postgres_server.database(empty=True) as url:
        examples_in_sql.migrate(url)
        yield url


@pytest.fixture(scope="session")
def examples_in_postgres(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("shared") / "library"
    with _copy("postgres", folder, request) as url, Refdesk(folder, database=url) as desk:
        yield desk


@contextmanager
def _copy(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A copy of the examples in a folder; gives the address of its database, or none for SQLite in the folder."""
    originals = request.getfixturevalue("examples_folder")
    if kind == "postgres":  # what is of SQLite is left behind, so that nobody can read it by mistake
        shutil.copytree(originals, folder, ignore=shutil.ignore_patterns("library.db*", "index"))
        with postgres_server.database(like=request.getfixturevalue("examples_database")) as url:
            yield url
    else:
        shutil.copytree(originals, folder)
        yield ""


@pytest.fixture
def own_folder(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: Any) -> Iterator[Path]:
    """A copy of the examples' library that a test may change or break."""
    with _copy(store_kind, tmp_path / "library", request) as url:
        monkeypatch.setenv("REFDESK_DATABASE_URL", url)
        yield tmp_path / "library"


@pytest.fixture(scope="module")
def examples_of_file(store_kind: str, request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Refdesk]:
    """The examples, for all tests of a file to change."""
    folder = tmp_path_factory.mktemp("own") / "library"
    with _copy(store_kind, folder, request) as url, Refdesk(folder, database=url) as desk:
        yield desk


@pytest.fixture
def new_folder(store_kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a test makes a library of its own, and opens it as often as it likes."""
    with postgres_server.database() if store_kind == "postgres" else nullcontext("") as url:
        monkeypatch.setenv("REFDESK_DATABASE_URL", url)
        yield tmp_path / "library"


@pytest.fixture
def shared_folder(examples: Refdesk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `examples`, to be opened once more, or read by commands."""
    monkeypatch.setenv("REFDESK_DATABASE_URL", examples.config.database_url)
    return examples.folder


@pytest.fixture
def own_examples(store_kind: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    if store_kind == "memory":
        yield copied(request.getfixturevalue("examples_in_memory"))
    else:
        with Refdesk(request.getfixturevalue("own_folder")) as desk:
            yield desk


@pytest.fixture
def server() -> Iterator[WireServer]:
    """Speaks as the servers of models do, and says what a test tells it to."""
    with WireServer() as found:
        yield found


@pytest.fixture
def desk(store_kind: str, tmp_path: Path) -> Iterator[Any]:
    """An empty library."""
    opened = Refdesk(tmp_path / "library") if store_kind == "sql" else open_either(store_kind, tmp_path / "library")
    with opened as found:
        yield found


@pytest.fixture(scope="module")
def model() -> Iterator[WireServer]:
    """The same for all tests of a file."""
    with WireServer() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from browser import browsing  # Playwright is installed for the tests of the page alone

    with browsing() as found:
        yield found
