"""Writes the pages that say what the program itself says: docs/cli.md from --help, docs/settings.md from the settings,
and the table of routes in docs/http.md.

python scripts/write_docs.py            # writes them
python scripts/write_docs.py --check    # says whether they are up to date
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

Each of these goes before those above it:

| where | how | for |
|---|---|---|
| variables of other programs | `RETRIEVAL_TOP_K=5`; the others are listed below | programs started with it |
| `refdesk.toml` in the library's folder | `[settings]`, then `"rag.top_k" = 5` | the library |
| the environment | `REFDESK_RAG_TOP_K=5`: the name with `_` for dots, in capitals | programs started with it |
| the library itself | `refdesk settings set rag.top_k 5` | the library; running programs see it at once |
| a program | `Refdesk(folder, settings={"rag.top_k": 5})`, `refdesk --set rag.top_k=5 …` | as long as it runs |
| a call | `desk.search(text, settings={"rag.top_k": 5})` | one question |

Those marked **yes** under "per question" may be changed by any caller for a question of his own; the others are the
owner's. Settings under `ingest` apply to documents that are added from then on.

Variables that other programs may mean too are heard last, and one with a value that cannot be used is ignored:
`RETRIEVAL_TOP_K` is `rag.top_k`, `RELEVANCE_THRESHOLD` is `rag.similarity_threshold`, `MAX_CONTEXT_TOKENS` is
`rag.max_context_tokens`, `LLM_TEMPERATURE` is `answer.temperature`, `LLM_MAX_TOKENS` is `answer.max_tokens`.
`LLM_MODEL` and its kind are in [models.md](models.md).
"""

SECTIONS = {
    "rag": "Finding passages and handing them to a model",
    "query": "Understanding the question",
    "answer": "Answering",
    "agent": "Searching in several steps",
    "prompt": "House rules for models",
    "llm": "Models that write",
    "cache": "Answers that are known already",
    "conversation": "Conversations",
    "ingest": "Taking documents in",
    "serve": "Serving over HTTP",
}

PRESETS_HEAD = """\

## Presets

`refdesk settings preset NAME` sets these and resets what the other presets set; only `balanced` resets `llm.enabled`.

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
        parts.append("| setting | default | may be | per question | what it does |\n|---|---|---|---|---|\n")
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
