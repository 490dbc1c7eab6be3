"""The trace holds what each stage took, gave and skipped, also when it fails."""

from __future__ import annotations

import asyncio

import pytest

from refdesk.answer import Context
from refdesk.trace import Trace, run


def test_stages_nest_and_are_timed() -> None:
    trace = Trace()
    with trace.stage("outer", hits=3) as outer:
        with trace.stage("inner"):
            sum(range(1000))
        outer.gave(hits=2)
    assert [(one.name, one.depth) for one in trace.stages] == [("outer", 0), ("inner", 1)]
    assert trace.stages[0].took_ms >= trace.stages[1].took_ms > 0
    assert trace.stages[0].took == {"hits": 3} and trace.stages[0].output == {"hits": 2}
    assert set(trace.milliseconds()) == {"outer_ms", "total_ms"}


def test_a_needed_stage_that_fails_is_named_and_goes_on_failing() -> None:
    trace = Trace()
    with pytest.raises(ValueError), trace.stage("retrieve"):
        raise ValueError("no such index")
    assert trace.failed_stage == "retrieve"
    assert trace.to_dict()["stages"][0]["error"] == "ValueError: no such index"


def test_an_optional_stage_that_fails_is_written_down_and_left_out() -> None:
    trace = Trace()
    with trace.stage("retrieve"), trace.optional("rerank"):
        raise ValueError("no model")
    assert trace.failed_stage == ""
    assert "no model" in trace.stages[1].error
    assert trace.stages[1].skipped == "it failed: ValueError"


def test_an_optional_stage_that_fails_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    trace = Trace()
    with trace.optional("rerank"):
        raise ValueError("what did the secret question say?")
    (record,) = caplog.records
    assert (record.levelname, record.stage, record.error) == ("WARNING", "rerank", "ValueError")  # type: ignore[attr-defined]
    assert record.trace_id == trace.id  # type: ignore[attr-defined]
    assert any("test_trace.py" in one for one in record.at)  # type: ignore[attr-defined]
    assert "secret" not in str(vars(record))
    assert trace.failed_stage == ""


def test_an_optional_stage_that_fails_does_not_take_the_blame_of_a_needed_one() -> None:
    trace = Trace()
    with trace.optional("recall"):
        raise ValueError
    assert trace.failed_stage == ""


def test_a_cancelled_optional_stage_is_not_gone_on_with() -> None:
    with pytest.raises(asyncio.CancelledError), Trace().optional("rerank"):
        raise asyncio.CancelledError


def test_run_writes_down_the_sizes_of_values() -> None:
    trace = Trace()
    given = Context((), "", 7)
    assert asyncio.run(run(trace, "assemble", lambda context: context, given)) is given
    assert trace.stages[0].took == trace.stages[0].output == given.sizes


def test_skips_say_why() -> None:
    trace = Trace()
    trace.skip("graph", "there is no entity graph")
    assert trace.to_dict()["stages"][0]["skipped"] == "there is no entity graph"
    assert "graph_ms" not in trace.milliseconds()
