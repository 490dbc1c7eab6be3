"""Writes the pages that say what the program itself says: docs/cli.md from --help, docs/settings.md from the settings.

python scripts/write_docs.py            # writes both
python scripts/write_docs.py --check    # says whether they are up to date
"""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import fields
from pathlib import Path

import typer

from refdesk.serve.cli import app
from refdesk.settings import Settings

DOCS = Path(__file__).parent.parent / "docs"
WIDTH = 80

CLI = """\
# The command line

Written from `--help` by `scripts/write_docs.py`; a test compares both.

The library is `--library DIR`, else the variable `REFDESK_LIBRARY`, else `~/.refdesk`. Results go to standard output,
messages and progress to standard error. `--json` prints one JSON value. In a pipe there are no colours and no line is
folded.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | something failed; one sentence a failure says what, and what to do |
| 2 | wrong usage: an unknown command, option, setting or document |
| 3 | nothing in the documents: the search found no chunk |
| 130 | stopped with Ctrl-C; what was finished is kept |
"""

SETTINGS = """\
# Settings

Written from `src/refdesk/settings.py` by `scripts/write_docs.py`; a test compares both.

A setting is changed for one run (`refdesk --set rag.top_k=5 search …`), for one program
(`Refdesk(folder, settings={"rag.top_k": 5})`), for one search (`desk.search(text, settings={…})`) or for a library, in
the file `refdesk.toml` in its folder:

```toml
[settings]
"rag.top_k" = 5
```

Settings under `ingest` apply to documents that are added from then on.

| setting | default | may be | what it does |
|---|---|---|---|
"""


def cli_page() -> str:
    """The help of the program, then of each command in the order it lists them."""
    commands = [command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands]
    parts = [CLI, _block("refdesk", _help())]
    parts += [_block(f"refdesk {name}", _help(name)) for name in commands]
    return "\n".join(parts)


def settings_page() -> str:
    rows = []
    for spec in fields(Settings):
        low, high = spec.metadata["minimum"], spec.metadata["maximum"]
        default = spec.default
        said = {bool: "true or false", str: "a text"}.get(type(default), f"{low} to {high}")
        said = f"{low} or more" if low is not None and high is None else said
        shown = str(default).lower() if isinstance(default, bool) else default
        rows.append(f"| `{spec.metadata['name']}` | {shown} | {said} | {spec.metadata['help']} |\n")
    return SETTINGS + "".join(rows)


def _help(*names: str) -> str:
    command = typer.main.get_command(app)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        command.main([*names, "--help"], "refdesk", standalone_mode=False, terminal_width=WIDTH)
    return said.getvalue().strip()


def _block(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text}\n```\n"


def main() -> int:
    pages = {DOCS / "cli.md": cli_page(), DOCS / "settings.md": settings_page()}
    stale = [path for path, text in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.name} is not up to date: python scripts/write_docs.py")
        return 1 if stale else 0
    for path in stale:
        path.write_text(pages[path], encoding="utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
