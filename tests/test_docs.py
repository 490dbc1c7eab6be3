"""The pages that repeat what the program says are up to date."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import run_refdesk
from refdesk import Settings

ROOT = Path(__file__).parent.parent


def test_pages_are_what_the_program_says() -> None:
    script = ROOT / "scripts" / "write_docs.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_setting_is_described() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for name, _, help_text in Settings().items():
        assert f"| `{name}` |" in page and help_text in page


def test_every_exit_code_is_described() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert all(f"\n| {code} |" in page for code in (0, 1, 2, 3, 130))


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_python_of_the_readme_runs(own_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    shutil.copy(ROOT / "examples" / "documents" / "budget-2026.xlsx", reports)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    code = code.replace("~/library", str(own_folder)).replace("reports/", str(reports))
    exec(compile(code, "README.md", "exec"), {})
    assert "budget-2026.xlsx" in capsys.readouterr().out


def test_the_readme_shows_what_the_program_answers(own_folder: Path) -> None:
    shown = re.findall(
        r'```\n\$ refdesk ask "(.*?)"\n(.*?)```', (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    ((question, lines),) = shown
    done = run_refdesk("--library", own_folder, "ask", question, COLUMNS="200")
    score = re.compile(r"\d\.\d\d")  # may differ in the last place from one processor to the next
    expected = [score.sub("0", line.rstrip()) for line in lines.splitlines()]
    assert expected == [score.sub("0", line.rstrip()) for line in done.stdout.splitlines()][: len(expected)]


def test_the_commands_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in set(re.findall(r"(?:^|bin/)refdesk (?:--library \S+ )?([a-z]+)", text, re.MULTILINE)):
        assert run_refdesk(command, "--help").returncode == 0, command
