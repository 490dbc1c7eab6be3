"""What is deployed is what the program is: every file parses, its own tool accepts it, its names are ours."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from refdesk.serve.cli import documents as _commands  # registers them
from refdesk.serve.cli.main import app
from refdesk.serve.http.observe import Figures
from refdesk.settings import Settings
from refdesk.store.schema import jobs
from refdesk.types import QUEUED, UNFINISHED

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
BUILT_IN = [path for path in KUBERNETES if path.stem not in ("keda", "kustomization")]  # kinds that Kubernetes brings
VARIABLE = re.compile(r"\b(?:REFDESK|AWS)_[A-Z0-9_]+\b")
OF_BOTO = {"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"}

assert _commands


def resources(path: Path) -> list[Any]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one is not None]


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def pods() -> list[tuple[str, Any]]:
    found = [(path.stem, one) for path in BUILT_IN for one in resources(path)]
    return [(name, one["spec"]["template"]["spec"]) for name, one in found if one["kind"] in ("Deployment", "Job")]


def check_command(arguments: list[str]) -> None:
    """That the program knows the command and its options, and the settings that are set on the way."""
    rest = list(arguments)
    while rest[0] == "--set":
        name, _, value = rest[1].partition("=")
        Settings().changed({name: value})
        rest = rest[2:]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {one for one in rest if one.startswith("--")} <= known, arguments


# names


def test_every_variable_is_one_that_somebody_reads() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for path in [*DEPLOY.rglob("*.yaml"), DEPLOY / "Dockerfile"]:
        for name in set(VARIABLE.findall(path.read_text(encoding="utf-8"))) - OF_BOTO:
            assert name in source, f"{path.name}: nobody reads {name}"


def test_every_command_is_one_that_there_is() -> None:
    own = [one for one in compose()["services"].values() if one.get("image", "").startswith("refdesk:")]
    commands = [one["command"] for one in own if "entrypoint" not in one]
    commands += [container["args"] for _, pod in pods() for container in pod["containers"]]
    last = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").rpartition("CMD ")[2]
    commands.append(yaml.safe_load(last))
    assert len(commands) == 6
    for one in commands:
        check_command(one)


def test_every_version_is_named() -> None:
    images = [one["image"] for one in compose()["services"].values()]
    images += re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.M)
    assert all(re.search(r":.*\d", one) and "latest" not in one for one in images), images


# the image


def test_the_image_is_built_in_stages_and_runs_as_nobody() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    joined = re.sub(r"\\\n\s*", " ", text)
    steps = [line.split(" ", 1) for line in joined.splitlines() if line and not line.startswith("#")]
    stages = [at for at, (name, _) in enumerate(steps) if name == "FROM"]
    assert len(stages) == 2 and any("--from=build" in value for _, value in steps[stages[1] :])
    users = [value for name, value in steps[stages[1] :] if name == "USER"]
    assert users == ["10001:10001"], "a number, which Kubernetes can see is not root's"
    assert not any(name == "ADD" for name, _ in steps) and ["VOLUME", '["/data"]'] in steps
    for name, value in steps:
        if name == "COPY" and "--from" not in value:
            for source in value.split()[:-1]:
                assert (ROOT / source).exists(), source
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv"} <= set(ignored) and not {"src", "requirements", "README.md"} & set(ignored)


def test_the_image_names_extras_that_there_are() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"\bEXTRAS=([a-z0-9,]+)$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.M)
    assert len(named) == 2 and all({"postgres", "redis", "s3"} <= set(one.split(",")) <= {*extras} for one in named)


def test_hadolint_has_nothing_to_say() -> None:
    program = shutil.which("hadolint", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if program is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# compose


def test_compose_has_two_of_each_and_all_that_they_need() -> None:
    services = compose()["services"]
    assert {"api", "worker", "postgres", "redis", "s3"} <= services.keys()
    for name in ("api", "worker"):
        one = services[name]
        assert one["deploy"]["replicas"] == 2 and one["read_only"] is True and one["cap_drop"] == ["ALL"]
        assert {"REFDESK_DATABASE_URL", "REFDESK_REDIS_URL", "REFDESK_FILES_URL"} <= one["environment"].keys()
        assert set(one["depends_on"]) <= services.keys()
    wanted = set(re.findall(r"\$\{([A-Z0-9_]+)", (DEPLOY / "compose.yaml").read_text(encoding="utf-8")))
    given = re.findall(r"^([A-Z0-9_]+)=", (DEPLOY / "compose.env.example").read_text(encoding="utf-8"), re.M)
    assert wanted == set(given)
    for one in services.values():
        for volume in one.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in compose()["volumes"] or (DEPLOY / source).exists(), volume


def test_compose_fits_its_specification() -> None:
    compose_spec = pytest.importorskip("compose_spec")
    example = (DEPLOY / "compose.env.example").read_text(encoding="utf-8")
    given = dict(line.split("=", 1) for line in example.splitlines() if not line.startswith("#"))
    text = re.sub(r"\$\{([A-Z0-9_]+)[^}]*\}", lambda found: given[found[1]], json.dumps(compose()))
    assert set(compose_spec.PyCompose.from_json(text).service_names()) == compose()["services"].keys()


def test_compose_itself_accepts_it() -> None:
    found = shutil.which("docker")
    if found is None or subprocess.run([found, "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is not installed")
    command = [found, "compose", "-f", DEPLOY / "compose.yaml", "--env-file", DEPLOY / "compose.env.example"]
    done = subprocess.run([*command, "config", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Kubernetes


@pytest.mark.parametrize("path", BUILT_IN, ids=lambda path: path.stem)
def test_every_resource_fits_its_schema(path: Path) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for one in resources(path):
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def test_kustomize_accepts_them() -> None:
    found = resources(DEPLOY / "kubernetes" / "kustomization.yaml")[0]
    assert all((DEPLOY / "kubernetes" / name).is_file() for name in found["resources"])
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run([program, "kustomize", DEPLOY / "kubernetes"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert {one["kind"] for one in built} >= {"Deployment", "Service", "HorizontalPodAutoscaler", "ConfigMap"}
    assert all(one["metadata"]["namespace"] == "refdesk" for one in built)


@pytest.mark.parametrize("name, pod", pods(), ids=lambda value: value if isinstance(value, str) else "")
def test_pods_run_as_nobody_and_write_nowhere_else(name: str, pod: Any) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] == 10001
    for container in pod["containers"]:
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True and rights["allowPrivilegeEscalation"] is False
        assert {one["mountPath"] for one in container["volumeMounts"]} == {"/data", "/tmp"}
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
        if name != "first-key":
            probes = [container[probe]["httpGet"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")]
            assert {one["port"] for one in probes} == {container["ports"][0]["name"]}
            port = str(container["ports"][0]["containerPort"])
            assert port in container["args"], "the port that is asked is the one it listens on"


def test_workers_follow_the_length_of_the_queue() -> None:
    """By the figure that /metrics tells, or by a look into the table that the program makes."""

    scaled = [
        one for one in resources(DEPLOY / "kubernetes" / "autoscaling.yaml") if "worker" in one["metadata"]["name"]
    ]
    metric = scaled[0]["spec"]["metrics"][0]["external"]["metric"]["name"]
    assert f"\n{metric} " in Figures().text().decode()
    (keda,) = (one for one in resources(DEPLOY / "kubernetes" / "keda.yaml") if one["kind"] == "ScaledObject")
    query = keda["spec"]["triggers"][0]["metadata"]["query"]
    assert f"FROM {jobs.name} " in query and {"kind", "status"} <= set(jobs.c.keys())
    assert all(f"'{word}'" in query for word in (*QUEUED, *UNFINISHED))
