"""What a model writes is bounded in size and time, and what was cut off is said and not stood behind."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path

import pytest

from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.ask.draft import CUT_OFF
from refdesk.ask.writing import LEFT_OUT, MOST_CLAIMS
from wire_server import WireServer

QUESTION = "How heavy is the anchor of the wave buoy?"
TEXT = "The anchor of the wave buoy weighs 350 kg. Its chain is 15 metres long."


@pytest.fixture
def folder(tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in server.openai_env("writer-8b").items():
        monkeypatch.setenv(name, value)
    with Refdesk(tmp_path / "library") as desk:
        desk.add_text("mooring.txt", TEXT)
    return tmp_path / "library"


MARKER = " [1]"


def answer(folder: Path, **settings: object) -> Answer:
    own = {"llm.tries": 1, "query.spelling": False} | settings
    with Refdesk(folder, settings=own) as desk:
        return desk.ask_sync(QUESTION, cache=False)


def test_a_stream_without_end_is_cut_off_by_its_size(folder: Path, server: WireServer) -> None:
    server.say(pieces=[*repeat("The anchor of the wave buoy weighs 350 kg. [1] ", 5_000)])
    found = answer(folder, **{"llm.max_answer_kb": 2})
    assert 1000 < len(found.content.encode()) <= 2000 + len(MARKER), "a marker of ours may follow what was cut"
    assert CUT_OFF["too_long"] in found.notes
    assert server.wait_for_disconnect(), "the rest is not read"
    assert server.requests[-1].pieces_sent < 5_000


def test_a_stream_without_end_is_cut_off_by_its_time(folder: Path, server: WireServer) -> None:
    server.say(pieces=[*repeat("The anchor of the wave buoy weighs 350 kg. [1] ", 10_000)], delay=0.05)
    found = answer(folder, **{"llm.total_s": 1.0})
    assert found.content and CUT_OFF["too_slow"] in found.notes
    assert server.wait_for_disconnect()


def test_thoughts_without_end_are_cut_off_too(folder: Path, server: WireServer) -> None:
    event = b'data: {"choices": [{"index": 0, "delta": {"reasoning_content": "%s"}}]}\n\n' % (b"hm " * 1000)
    server.say(raw=[*repeat(event, 2_000)])
    found = answer(folder, **{"llm.max_answer_kb": 1})
    assert found.model == "extractive", "who only thinks has written nothing"
    assert server.wait_for_disconnect(0)


def test_an_answer_in_one_piece_is_cut_off_too(folder: Path, server: WireServer) -> None:
    server.say(pieces=["The anchor of the wave buoy weighs 350 kg. [1] " * 50_000])
    found = answer(folder, **{"llm.max_answer_kb": 3})
    assert len(found.content.encode()) <= 3000 + len(MARKER) and CUT_OFF["too_long"] in found.notes


def test_so_many_sentences_are_checked_and_no_more_are_shown(folder: Path, server: WireServer) -> None:
    server.say(pieces=[f"The anchor weighs {number} kg. [1] " for number in range(2 * MOST_CLAIMS)])
    found = answer(folder)
    assert len(found.claims) == MOST_CLAIMS
    assert LEFT_OUT in found.notes
    assert found.content.endswith(f"{MOST_CLAIMS - 1} kg. [1]")


def test_the_providers_own_limit_is_said_and_the_fragment_is_not_supported(folder: Path, server: WireServer) -> None:
    server.say("The anchor of the wave buoy weighs 350 kg. [1] Its chain is 15 metres", finish="length")
    found = answer(folder, **{"answer.mode": "quick"})
    assert CUT_OFF["length"] in found.notes
    first, last = found.claims
    assert first.verdict == "supported"
    assert last.verdict == "unsupported" and "cut off" in last.note


def test_a_whole_answer_has_no_such_note(folder: Path, server: WireServer) -> None:
    server.say("The anchor of the wave buoy weighs 350 kg. [1]")
    assert not set(answer(folder).notes) & {*CUT_OFF.values(), LEFT_OUT}


@pytest.mark.parametrize("marker", ["[Wikipedia]", "[Reuters]", "[General knowledge]"])
def test_a_marker_that_no_passage_owns_does_not_stay(folder: Path, server: WireServer, marker: str) -> None:
    server.say(f"The anchor of the wave buoy weighs 350 kg [1] {marker}. Its chain is 15 metres long. [1] {marker}")
    found = answer(folder, **{"answer.mode": "quick"})
    assert marker not in found.content and marker.strip("[]") not in found.content
    assert "350 kg" in found.content and "15 metres" in found.content
