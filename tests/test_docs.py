"""The pages that repeat what the program says are up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from refdesk import Settings

ROOT = Path(__file__).parent.parent


def test_pages_are_what_the_program_says() -> None:
    script = ROOT / "scripts" / "write_docs.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_setting_is_described() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for name, _, help_text in Settings().items():
        assert f"| `{name}` |" in page and help_text in page


def test_every_exit_code_is_described() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert all(f"\n| {code} |" in page for code in (0, 1, 2, 3, 130))
