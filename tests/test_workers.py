"""Any number of workers share one table of jobs: each job is done once, and whoever dies is stood in for."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

import postgres_server
import upload_samples
from conftest import REFDESK
from embedding_endpoint import Reply, running_endpoint
from http_server import served
from library_samples import open_desk, wait_until
from refdesk import Refdesk
from refdesk.errors import ProviderUnavailable
from refdesk.ingest.runs import FIRST_WAIT_S, MOST_TAKEN, later
from refdesk.records import LOCAL
from refdesk.serve.uploads import Uploads
from refdesk.serve.worker import STUCK_S, UploadWorker, batch, tell_health
from refdesk.types import Job
from upload_samples import hand_in, work_off

desk = upload_samples.desk


@contextmanager
def workers(desk: Refdesk, count: int) -> Iterator[list[UploadWorker]]:
    """In threads of this process, each with a run of its own."""
    found = [UploadWorker(desk, is_one_of_many=True) for _ in range(count)]
    for one in found:
        one.start()
    try:
        yield found
    finally:
        for one in found:
            one.stop()


def finished(desk: Refdesk, seconds: float = 120.0) -> dict[str, Job]:
    assert wait_until(lambda: desk.jobs.waiting() == 0, seconds)
    return {one.name: one for one in desk.jobs.all().values()}


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Refdesk]:
    with ExitStack() as stack:
        if request.param == "postgres":
            monkeypatch.setenv("REFDESK_DATABASE_URL", stack.enter_context(postgres_server.database()))
        yield stack.enter_context(open_desk(tmp_path / "library"))


def test_two_workers_do_every_job_once(either: Refdesk) -> None:
    desk = either
    for number in range(12):
        hand_in(desk, f"{number}.md", f"The gauge of berth {number} was read at noon.".encode())
    hand_in(desk, "plan.md", b"The first plan.")
    hand_in(desk, "plan.md", b"The second plan.")
    for name in ("twin.md", "double.md"):
        hand_in(desk, name, b"The same words in both.")
    with workers(desk, 2):
        jobs = finished(desk)
    assert {one.status for one in jobs.values()} == {"ready"} and {one.attempts for one in jobs.values()} == {1}
    names = sorted(one.name for one in desk.documents())
    assert names == sorted([*(f"{number}.md" for number in range(12)), "plan.md", "twin.md"])
    assert jobs["double.md"].outcome == "unchanged" and jobs["double.md"].document_id == jobs["twin.md"].document_id
    assert "second plan" in desk.pages("plan.md")[0].text, "the later one stays, whoever was faster"
    assert all(one.well for one in desk.check())


def test_a_server_may_leave_the_work_to_workers(desk: Refdesk) -> None:
    desk.change_settings({"serve.adds": False})
    hand_in(desk, "note.md", b"The lamp was lit at dusk.")
    uploads = Uploads(desk)
    uploads.start()
    assert not wait_until(lambda: desk.jobs.waiting() == 0, 3.0)
    with workers(desk, 1):
        assert finished(desk)["note.md"].status == "ready"
    uploads.stop()


# who dies is stood in for


def test_a_worker_that_is_killed_is_stood_in_for(tmp_path: Path) -> None:
    """By a worker of its own machine at once; and a server shows how far it is all the while."""
    folder = tmp_path / "library"
    with open_desk(folder) as desk:
        desk.change_settings({"serve.adds": False, "ingest.workers": 1})
    command = [REFDESK, "--library", folder, "worker", "--concurrency", "1", "--health", "0"]
    with ExitStack() as stack:
        server = stack.enter_context(served(folder))
        files = [
            ("files", (f"{number}.md", (f"Berth {number}. " + "The tide was falling at noon. " * 800).encode()))
            for number in range(3)
        ]
        assert server.post("/api/documents", files=files).status_code == 202
        first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        stack.callback(first.kill)

        def listed() -> list[str]:
            return [one["status"] for one in server.get("/api/uploads").json()["uploads"]]

        assert wait_until(lambda: "processing" in listed())
        first.kill()
        first.wait()
        second = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        stack.callback(second.kill)
        assert wait_until(lambda: listed() == ["ready"] * 3, 240.0)
        documents = server.get("/api/documents").json()
        assert documents["total"] == 3
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0


def test_a_document_that_ends_its_workers_is_parked(desk: Refdesk) -> None:
    """As when it takes all the memory of a machine: nobody is left who could say so."""
    poison = hand_in(desk, "poison.pdf", b"%PDF-1.7 torn")
    innocent = hand_in(desk, "innocent.md", b"The lamp was lit at dusk.")
    for _ in range(2):
        run = desk.jobs.start()
        assert {one.id for one in desk.jobs.take(run, batch)} == {poison.id, innocent.id}
        desk.jobs.end(run)  # as its lease does when it is dead
    for _ in range(MOST_TAKEN - 2):
        run = desk.jobs.start()
        assert [one.id for one in desk.jobs.take(run, batch)] == [poison.id], "by itself"
        desk.jobs.end(run)
    with workers(desk, 1):
        jobs = finished(desk)
    assert jobs["innocent.md"].status == "ready"
    parked = jobs["poison.pdf"]
    assert parked.status == "failed" and f"died {MOST_TAKEN} times" in parked.reason and "it is saved" in parked.reason
    assert desk.files.staged(poison.id).is_file()
    uploads = Uploads(desk)
    again = uploads.retry(poison.id, LOCAL)
    assert (again.status, again.attempts) == ("pending", 0)


def test_who_is_told_to_stop_is_not_held_against_a_document(desk: Refdesk) -> None:
    hand_in(desk, "long.md", b"The gauge was read at noon, and the tide was falling. " * 20_000)
    with workers(desk, 1):
        assert wait_until(lambda: next(iter(desk.jobs.all().values())).status == "processing")
    (job,) = desk.jobs.all().values()
    assert (job.worker, job.attempts) == ("", 0)


# another try


def test_what_failed_elsewhere_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint of an embedder is away; nobody has to upload anything again."""
    with running_endpoint() as endpoint:
        monkeypatch.setenv("REFDESK_EMBEDDER", "openai:some-model")
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
        with open_desk(tmp_path / "library") as desk:
            desk.add_text("first.md", "The quay is long.")  # the endpoint is there, and its vectors are known
            endpoint.script = [Reply(503, b'{"error": {"message": "out for lunch"}}')] * 3  # as often as it is tried
            hand_in(desk, "note.md", b"The lamp was lit at dusk.")
            work_off(desk)
            (job,) = desk.jobs.all().values()
            assert (job.status, job.worker, job.attempts) == ("pending", "", 1) and "out for lunch" in job.reason
            assert not job.is_due and job.lease_until - time.time() <= 1.25 * FIRST_WAIT_S
            with workers(desk, 1):
                assert finished(desk)["note.md"].status == "ready"
            (job,) = desk.jobs.all().values()
            assert job.attempts == 2 and job.reason == ""
            assert [one.status for one in desk.documents()] == ["ready", "ready"]


def test_each_wait_is_longer_than_the_one_before() -> None:
    job = Job("j", "a.md", "default", attempts=1)
    waits = []
    for attempts in range(1, MOST_TAKEN):
        again = later(replace(job, attempts=attempts), ProviderUnavailable("away"))
        waits.append(again.lease_until - time.time())
    for number, wait in enumerate(waits):
        assert 0.74 * FIRST_WAIT_S * 2**number < wait < 1.26 * FIRST_WAIT_S * 2**number


def test_what_is_not_due_waits(desk: Refdesk) -> None:
    soon, late = (Job(name, name, "default", lease_until=time.time() + wait) for name, wait in (("a", -1), ("b", 9)))
    assert batch([soon, late]) == [soon]


# back-pressure


def test_more_than_can_wait_is_refused_for_a_while(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.change_settings({"serve.max_waiting": 2, "serve.adds": False})
        with served(tmp_path / "library") as server:
            for number in range(2):
                form = [("files", (f"{number}.md", b"The lamp."))]
                assert server.post("/api/documents", files=form).status_code == 202
            refused = server.post("/api/documents", files=[("files", ("more.md", b"The lamp."))])
            assert refused.status_code == 429 and refused.headers["retry-after"] == "30"
            assert "2 files are already waiting to be added" in refused.json()["message"]
            assert "refdesk_jobs_waiting 2.0" in server.get("/metrics").text
            with workers(desk, 1):
                finished(desk)
            assert server.post("/api/documents", files=[("files", ("more.md", b"The lamp."))]).status_code == 202


# is it alive?


def test_a_worker_says_whether_it_is_alive(desk: Refdesk) -> None:
    worker = UploadWorker(desk, is_one_of_many=True)
    server = tell_health(worker, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.server_port}/healthz"
    assert httpx2.get(url).json() == {"status": "ok"}
    worker.last_sign -= STUCK_S + 1
    assert httpx2.get(url).status_code == 503
    threading.Thread(target=server.shutdown).start()


def test_what_a_run_had_when_the_database_went_is_given_back_uncounted(desk: Refdesk) -> None:
    """The end of the run could not be written down; the process itself is well, so others would wait for its lease."""
    hand_in(desk, "note.md", b"The lamp was lit at dusk.")
    gone = desk.jobs.start()
    assert [one.attempts for one in desk.jobs.take(gone, batch)] == [1]
    worker = UploadWorker(desk, is_one_of_many=True)
    lost = [gone]
    worker._give_back(lost)
    (job,) = desk.jobs.all().values()
    assert (job.worker, job.attempts, lost) == ("", 0, []) and gone not in desk.jobs.alive()
