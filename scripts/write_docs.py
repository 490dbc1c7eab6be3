"""Generates docs/cli.md from --help, docs/settings.md from the settings, and the table of routes in docs/http.md.

python scripts/write_docs.py            # write them
python scripts/write_docs.py --check    # check that they are up to date
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import typer

from refdesk import Refdesk
from refdesk.serve.cli.documents import app
from refdesk.serve.http.app import create_app
from refdesk.settings import PRESETS, specs

DOCS = Path(__file__).parent.parent / "docs"
WIDTH = 80
ROUTES, ROUTES_END = "<!-- routes -->", "<!-- /routes -->"

CLI = """\
# The command line

Generated from `--help` by `scripts/write_docs.py`.

The library is in `--library DIR`, or `REFDESK_LIBRARY`, or `~/.refdesk`. Results go to standard output, messages and
progress to standard error. `--json` prints one JSON value. In a pipe, output has no colours and lines are not wrapped.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | something failed; a message for each failure says what happened and what to do |
| 2 | usage error: an unknown command, option, setting or document |
| 3 | the documents do not contain the answer, or the search found nothing |
| 130 | stopped with Ctrl-C; finished work is kept |
"""

SETTINGS = """\
# Settings

Generated from `src/refdesk/settings.py` by `scripts/write_docs.py`.

Settings can come from several places; later rows override earlier ones:

| where | how | applies to |
|---|---|---|
| generic environment variables | `RETRIEVAL_TOP_K=5`; see the list below | programs started with it |
| `refdesk.toml` in the library folder | `[settings]`, then `"rag.top_k" = 5` | the library |
| environment variables | `REFDESK_RAG_TOP_K=5`: the name in capitals, with `_` for dots | programs started with it |
| the library itself | `refdesk settings set rag.top_k 5` | the library; running programs use it immediately |
| a program | `Refdesk(folder, settings={"rag.top_k": 5})`, `refdesk --set rag.top_k=5 …` | that run |
| a call | `desk.search(text, settings={"rag.top_k": 5})` | one question |

Any caller can change settings marked **yes** under "per question" for their own question; the others belong to the
owner. Settings under `ingest` apply to documents added afterwards.

Generic environment variables, which other programs may use too, have the lowest priority; invalid values are ignored:
`RETRIEVAL_TOP_K` is `rag.top_k`, `RELEVANCE_THRESHOLD` is `rag.similarity_threshold`, `MAX_CONTEXT_TOKENS` is
`rag.max_context_tokens`, `LLM_TEMPERATURE` is `answer.temperature`, `LLM_MAX_TOKENS` is `answer.max_tokens`.
`LLM_MODEL` and related variables are described in [models.md](models.md).
"""

SECTIONS = {
    "rag": "Search and context",
    "query": "Questions",
    "answer": "Answers",
    "agent": "Agent and report modes",
    "prompt": "House rules for models",
    "llm": "Language models",
    "cache": "Answer cache",
    "conversation": "Conversations",
    "ingest": "Adding documents",
    "serve": "HTTP server",
}

PRESETS_HEAD = """\

## Presets

`refdesk settings preset NAME` changes these settings and resets those of the other presets; only `balanced` resets
`llm.enabled`.

| preset | sets |
|---|---|
"""


def cli_page() -> str:
    """The help of the program, then of each command in the order it lists them."""
    command = typer.main.get_command(app)
    parts = [CLI, _block("refdesk", _help())]
    for name, one in _commands(command):
        parts.append(_block(f"refdesk {name}", _help(name)))
        parts += [_block(f"refdesk {name} {below}", _help(name, below)) for below, _ in _commands(one)]
    return "\n".join(parts)


def _commands(command: Any) -> list[tuple[str, Any]]:
    return list(getattr(command, "commands", {}).items())


def settings_page() -> str:
    parts = [SETTINGS]
    for section, title in SECTIONS.items():
        parts.append(f"\n## `{section}`: {title}\n\n")
        parts.append("| setting | default | allowed values | per question | what it does |\n|---|---|---|---|---|\n")
        for spec in specs():
            if spec.section == section:
                flag = "**yes**" if spec.per_request else ""
                cells = (f"`{spec.name}`", _shown(spec.default), spec.allowed, flag, spec.help)
                parts.append(f"| {' | '.join(cells)} |\n")
    parts.append(PRESETS_HEAD)
    for name, values in PRESETS.items():
        said = ", ".join(f"`{setting}` {_shown(value)}" for setting, value in values.items())
        parts.append(f"| `{name}` | {said or 'nothing: the defaults'} |\n")
    return "".join(parts)


def http_page() -> str:
    """The page as it is, with the routes of the app between its two marks."""
    before, _, rest = (DOCS / "http.md").read_text(encoding="utf-8").partition(ROUTES)
    _, _, after = rest.partition(ROUTES_END)
    with tempfile.TemporaryDirectory() as folder, Refdesk(Path(folder) / "library") as desk:
        paths = create_app(desk).openapi()["paths"]
    lines = [
        f"| `{method.upper()} {path}` | {operation['summary']} |\n"
        for path, operations in sorted(paths.items())
        for method, operation in operations.items()
    ]
    return f"{before}{ROUTES}\n| route | what it does |\n|---|---|\n{''.join(lines)}{ROUTES_END}{after}"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _help(*names: str) -> str:
    command = typer.main.get_command(app)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        command.main([*names, "--help"], "refdesk", standalone_mode=False, terminal_width=WIDTH)
    return said.getvalue().strip()


def _block(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text}\n```\n"


def main() -> int:
    pages = {DOCS / "cli.md": cli_page(), DOCS / "settings.md": settings_page(), DOCS / "http.md": http_page()}
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
