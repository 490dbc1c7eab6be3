"""What runs before a landing: nothing is tried again in `make test`, and what .ci/run tries again it names."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLAKY = "tests/test_x.py::test_y[a b]"
MAKEFILE = """
test:
	{test}
slow:
	{slow}
again:
	{again}
"""
KEPT = ".pytest_cache/v/cache"
FAIL = f"mkdir -p {KEPT}; printf '{{{{\\n  \"%s\": true\\n}}}}' '{{name}}' > {KEPT}/lastfailed; exit 1"


def landed(folder: Path, **targets: str) -> subprocess.CompletedProcess[str]:
    """`.ci/run` with targets that do as they are told."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    done = {"test": "true", "slow": "true", "again": "true"} | targets
    (folder / "Makefile").write_text(MAKEFILE.format(**done), encoding="utf-8")
    return subprocess.run([str(folder / ".ci" / "run")], capture_output=True, encoding="utf-8", timeout=120)


@pytest.mark.parametrize("target", ["test", "slow"])
def test_what_passes_only_alone_is_named_at_the_end(tmp_path: Path, target: str) -> None:
    done = landed(tmp_path, **{target: FAIL.format(name=FLAKY)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"flaky: {FLAKY}"


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    assert landed(tmp_path, test=FAIL.format(name=FLAKY), again="exit 1").returncode != 0


def test_what_passes_at_once_is_not_named(tmp_path: Path) -> None:
    done = landed(tmp_path)
    assert done.returncode == 0 and "flaky" not in done.stdout


def test_make_test_tries_nothing_again() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("test", "unit", "slow"):
        recipe = re.search(rf"^{target}:[^\n]*\n(?:\t[^\n]*\n)*", makefile, re.MULTILINE)
        assert recipe is not None and not re.search(r"again|last-failed|--lf|reruns|\|\|", recipe[0]), target
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert not re.search(r"reruns|last-failed|rerunfailures|flaky", settings)


def test_no_test_asserts_a_time_of_the_clock() -> None:
    """What takes how long hangs on the machine and on what else it does: ratios, counts and orders do not."""
    clock = r"(?:perf_counter|process_time|thread_time|monotonic|time\.time)\(\)"
    for file in sorted(Path(__file__).parent.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        found = re.findall(rf"^.*\bassert\b.*{clock} - .*$", text, re.MULTILINE)
        found += re.findall(
            r"^.*\bassert\b.*(?:\bcpu\(.*\)|_ms\b\S*) [<>]=? [1-9][\d.]*+(?! \*).*$", text, re.MULTILINE
        )
        assert not found, file.name
