"""What happens to every file of a folder of real and broken files? Writes docs/formats-tried.md.

python -m benchmarks.formats [--folder DIR]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import DATA, ROOT, Figure, write
from refdesk import Added, Progress, Refdesk

PAGE = ROOT / "docs" / "formats-tried.md"
SLOWEST_S = 300.0  # the time limit of one document


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=DATA / "formats")
    options = parser.parse_args(arguments)
    visible = (path for path in options.folder.rglob("*") if "/." not in path.as_posix())
    files = sorted(path for path in visible if path.is_file())
    with tempfile.TemporaryDirectory() as place, Refdesk(place) as desk:
        began = time.perf_counter()
        last = Progress()

        def keep(progress: Progress) -> None:
            nonlocal last
            last = progress

        results = desk.add(options.folder, on_progress=keep)
        seconds = time.perf_counter() - began
        well = all(finding.well for finding in desk.check())
    top = [one for one in results if one.document is None or one.document.parent_id is None]
    counts = Counter(one.outcome for one in top)
    unexplained = [one.name for one in top if one.outcome == "failed" and not one.reason]
    listed = {one.name for one in top}
    missing = [path for path in files if path.relative_to(options.folder).as_posix() not in listed]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(_page(results), encoding="utf-8")
    write(
        "formats",
        "Real and broken files",
        [
            Figure("files", str(len(files))),
            Figure("added", str(counts["added"])),
            Figure("same content as another one", str(counts["unchanged"])),
            Figure("attachments added with their mail", str(len(results) - len(top))),
            Figure("refused with a reason", str(counts["failed"]), "each has one", not unexplained),
            Figure("without an outcome", str(len(missing)), "0", not missing),
            Figure("library well afterwards", "yes" if well else "no", "yes", well),
            Figure("time, OCR included", f"{seconds:.0f} s for {last.pages_done} pages and {last.chunks_done} chunks"),
        ],
        ["What happened to each: [docs/formats-tried.md](../../docs/formats-tried.md)."],
    )


def _page(results: Sequence[Added]) -> str:
    lines = [
        "# What happened to every test file",
        "",
        "Written by `make bench-formats` from a folder of real files, many of them odd or broken.",
        "",
        "| file | read as | pages | chunks | outcome |",
        "|---|---|---|---|---|",
    ]
    for one in sorted(results, key=lambda one: one.name):
        document = one.document
        kind = (document.format if document else "") or "–"
        pages, chunks = (document.page_count, document.chunk_count) if document else (0, 0)
        said = one.outcome if not one.reason else f"{one.outcome}: {one.reason}"
        notes = f" ({'; '.join(document.notes)})" if document and document.notes else ""
        cells = (one.name, kind, str(pages or "–"), str(chunks or "–"), said + notes)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
