"""Makes the backup that a later version must restore: three documents, a conversation, feedback, a key and a setting.

python tests/golden_backup.py tests/golden/backup-0.1

writes backup-0.1.tar and backup-0.1.json, which says what is in it. Run once for a release that changes what a library
looks like on disk, under a new name: a backup of an old version is never written again, or it would prove nothing.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conftest import run_refdesk
from golden_files import dump
from http_server import Server, served

DOCUMENTS = {
    "quay.md": "# The quay\n\nThe quay was built of oak in 1911. A mooring at the quay costs 24 crowns a night.\n",
    "lamp.txt": "The harbour lamp is lit at dusk. Its keeper is Ulla Brandt. The lamp burns 3 litres of oil a night.\n",
    "ferries.csv": "ferry,departs,fare\nGull,08:15,12 crowns\nTern,11:40,15 crowns\nSkua,17:05,9 crowns\n",
}
SETTINGS = {"rag.top_k": 7}
QUESTIONS = ("Who keeps the harbour lamp?", "How much oil does it burn a night?")


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        with served(library) as server:
            for name, text in DOCUMENTS.items():
                add(server, name, text, "harbour/2025" if name == "quay.md" else "default")
            assert server.request("PATCH", "/api/settings", json=SETTINGS).is_success
            documents = server.get("/api/documents").json()["documents"]
            key = json.loads(run_refdesk("--library", library, "keys", "add", "Anna", "--json").stdout)
            made = {
                "documents": {one["name"]: {"collection": one["collection"], "id": one["id"]} for one in documents},
                "key": {"name": key["name"], "role": key["role"], "secret": key["secret"]},
                "settings": SETTINGS,
                **converse(server, key["secret"]),
            }
        done = run_refdesk("--library", library, "backup", target.with_name(target.name + ".tar"))
        assert done.returncode == 0, done.stderr
    target.with_name(target.name + ".json").write_text(dump(made) + "\n", encoding="utf-8")


def add(server: Server, name: str, text: str, collection: str) -> None:
    """Hands in a file and waits until it is read; one after the other, so that their order is always the same."""
    files, form = [("files", (name, text.encode(), "text/plain"))], {"collection": collection}
    sent = server.post("/api/documents", files=files, data=form)
    assert sent.status_code == 202, sent.text
    until = time.monotonic() + 120
    while any(one["status"] not in ("ready", "failed") for one in server.get("/api/uploads").json()["uploads"]):
        assert time.monotonic() < until, "the file was not read"
        time.sleep(0.1)


def converse(server: Server, key: str) -> dict[str, Any]:
    first = server.post("/api/chat", json={"message": QUESTIONS[0]}, key=key).json()
    talk = first["conversation_id"]
    second = server.post("/api/chat", json={"message": QUESTIONS[1], "conversation_id": talk}, key=key).json()
    told = {"answer_id": second["id"], "verdict": "wrong", "correction": "It burns four litres since May."}
    assert server.post("/api/feedback", json=told, key=key).is_success
    answers = [first["content"], second["content"]]
    return {"conversation": {"id": talk, "questions": QUESTIONS, "answers": answers}, "feedback": told}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
