"""Deployment: where the library is, which models it uses, and how its files are kept on this machine.

Configuration comes from arguments, the environment, then refdesk.toml; last come variables such as LLM_MODEL, which
other programs may mean too. Files are their owner's alone; what the disk says of them is said in words.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from refdesk.errors import DiskFull, LibraryError, UsageError
from refdesk.models import PROVIDERS, Provider, split_name
from refdesk.settings import Settings, specs

logger = logging.getLogger("refdesk")
SHIPPED_EMBEDDER = "shipped"
GIVEN_EMBEDDER = "given"  # by the program that opened the library
DEFAULT_LIBRARY = "~/.refdesk"
# Entry of refdesk.toml and field of Config -> variable of the environment
_MODELS: Mapping[str, str] = {
    "llm": "REFDESK_LLM",
    "llm_router": "REFDESK_LLM_ROUTER",
    "llm_verifier": "REFDESK_LLM_VERIFIER",
    "llm_reconciler": "REFDESK_LLM_RECONCILER",
    "llm_summariser": "REFDESK_LLM_SUMMARISER",
    "llm_fallbacks": "REFDESK_LLM_FALLBACKS",
}
_TOML: Mapping[str, type] = {
    "embedder": str,
    "embedder_dimensions": int,
    **dict.fromkeys(_MODELS, str),
    "settings": dict,
}
# Variables of seed 002 and the settings that they are here
_COMMON_NAMES: Mapping[str, str] = {
    "RETRIEVAL_TOP_K": "rag.top_k",
    "RELEVANCE_THRESHOLD": "rag.similarity_threshold",
    "MAX_CONTEXT_TOKENS": "rag.max_context_tokens",
    "LLM_TEMPERATURE": "answer.temperature",
    "LLM_MAX_TOKENS": "answer.max_tokens",
}
_COMMON_PROVIDER = "groq"  # seed 002's, where LLM_MODEL has a key and neither a provider nor an address
_WORDS: Mapping[type, str] = {str: "a text", int: "a whole number", dict: "a table"}


@dataclass(frozen=True, slots=True)
class Entered:
    """Address and key of a provider that somebody entered in the settings; empty: not entered."""

    base_url: str = ""
    api_key: str = field(default="", repr=False)


NOTHING_ENTERED = Entered()
IN_SETTINGS = "the settings"


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """Where a provider is reached, and with which key; `key_variable` is the one it was or would be read from.

    It is `IN_SETTINGS` for a key that was entered there.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    key_variable: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """`embedder` is "shipped", or "openai:MODEL" for any OpenAI-compatible endpoint; `settings` are refdesk.toml's.

    `llm` and its roles are "provider:model" or empty; `llm_fallbacks` has commas between several.
    """

    library: Path
    embedder: str = SHIPPED_EMBEDDER
    embedder_base_url: str = ""
    embedder_api_key: str = field(default="", repr=False)
    embedder_dimensions: int = 0  # 0: asked of the endpoint
    llm: str = ""
    llm_router: str = ""
    llm_verifier: str = ""
    llm_reconciler: str = ""
    llm_summariser: str = ""
    llm_fallbacks: str = ""
    database_url: str = field(default="", repr=False)  # postgresql://…; "": SQLite in the library's folder
    replica_url: str = field(default="", repr=False)  # a follower of that database, which is searched instead
    database_pool: int = 10  # connections of one process, for reading and as many for writing
    database_timeout_s: float = 30.0  # of one statement that reads
    common_provider: str = ""  # whose model LLM_MODEL names, where nothing of Refdesk's own does
    redis_url: str = field(default="", repr=False)  # cache, limits and streams of many machines; "": of this one
    files_url: str = field(default="", repr=False)  # originals and uploads: s3://bucket/folder; "": in the library
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment_settings: Mapping[str, str] = field(default_factory=dict)  # REFDESK_RAG_TOP_K and the like, by setting
    common_settings: Mapping[str, str] = field(default_factory=dict)  # RETRIEVAL_TOP_K and the like; they count least
    # None: the process's own, looked at when a provider is used and never kept, so that keys do not travel to workers
    environment: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    def access(self, provider: Provider, entered: Entered = NOTHING_ENTERED) -> ProviderAccess:
        """Address and key of a provider: what was entered, else from the variables its own SDK reads.

        A key of the environment never goes to an address that was entered: who may change settings could have it sent
        to a machine of his own.
        """
        env = os.environ if self.environment is None else self.environment
        is_common = provider.name == self.common_provider
        named = entered.base_url or env.get(provider.base_url_variable, "").strip()
        named = named or (env.get("LLM_BASE_URL", "").strip() if is_common else "")
        variables = (*provider.key_variables, "LLM_API_KEY") if is_common else provider.key_variables
        variable = next((variable for variable in variables if env.get(variable, "").strip()), "")
        key = env.get(variable, "").strip()
        if entered.api_key or entered.base_url:
            variable, key = IN_SETTINGS, entered.api_key
        if not variable and provider.key_variables:
            variable = provider.key_variables[0]
        if not key and provider.needs_key and not named:
            raise UsageError(
                f"{provider.name} needs an API key, and {variable} is not set",
                hint=f"enter the key on the settings page, or set {variable}",
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError(f"{variable} holds characters that no API key has", hint="copy the key again")
        return ProviderAccess(_base_url(provider, named, is_entered=bool(entered.base_url)), key, variable)


def load_config(
    library: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    database: str | None = None,
) -> Config:
    """The library named by the caller, else REFDESK_LIBRARY, else ~/.refdesk, and what its refdesk.toml says.

    `database` is named by the caller too, else by REFDESK_DATABASE_URL; a replica is of that one.

    llm = "ollama:qwen2.5:14b"
    llm_verifier = "openai:gpt-4o-mini"
    embedder = "openai:bge-m3"
    embedder_dimensions = 1024
    [settings]
    "rag.top_k" = 5
    """
    env = os.environ if environment is None else environment
    folder = Path(library or env.get("REFDESK_LIBRARY") or DEFAULT_LIBRARY).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a library's folder", hint="choose a folder with --library")
    table = _read_toml(folder / "refdesk.toml")
    embedder = env.get("REFDESK_EMBEDDER") or str(table.get("embedder", SHIPPED_EMBEDDER))
    if embedder != SHIPPED_EMBEDDER and not embedder.startswith("openai:"):
        raise UsageError(
            f"unknown embedder '{embedder}'",
            hint="use 'shipped', or 'openai:MODEL' for an OpenAI-compatible endpoint",
        )
    is_remote = embedder != SHIPPED_EMBEDDER  # keys are read only for what is named
    models = {name: _model_names(name, env.get(variable) or table.get(name, "")) for name, variable in _MODELS.items()}
    provider = ""
    if not models["llm"] and (common := _common_model(env)):
        models["llm"], provider = common, common.partition(":")[0]
    return Config(
        library=folder,
        embedder=embedder,
        embedder_base_url=env.get("OPENAI_BASE_URL", "") if is_remote else "",
        embedder_api_key=env.get("OPENAI_API_KEY", "") if is_remote else "",
        embedder_dimensions=table.get("embedder_dimensions", 0),
        database_url=env.get("REFDESK_DATABASE_URL", "").strip() if database is None else database,
        replica_url=env.get("REFDESK_DATABASE_REPLICA_URL", "").strip() if database is None else "",
        database_pool=int(_number(env, "REFDESK_DATABASE_POOL", 10, least=1)),
        database_timeout_s=_number(env, "REFDESK_DATABASE_TIMEOUT_S", 30.0, least=0.1),
        redis_url=env.get("REFDESK_REDIS_URL", "").strip(),
        files_url=env.get("REFDESK_FILES_URL", "").strip(),
        settings=table.get("settings", {}),
        environment_settings=_given(env, {variable_of(spec.name): spec.name for spec in specs()}),
        common_settings=_given(env, _COMMON_NAMES),
        common_provider=provider,
        environment=environment,
        **models,
    )


def _number(environment: Mapping[str, str], variable: str, default: float, *, least: float) -> float:
    given = environment.get(variable, "").strip()
    try:
        number = float(given or default)
    except ValueError:
        number = -1.0
    if not least <= number < 1e6:
        raise UsageError(f"{variable} must be a number from {least:g} on, not '{given}'")
    return number


def variable_of(setting: str) -> str:
    """`rag.top_k` -> `REFDESK_RAG_TOP_K`."""
    return f"REFDESK_{setting.replace('.', '_').upper()}"


def _given(env: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """What the environment says of settings; the models of the roles are read by themselves."""
    model_variables = set(_MODELS.values())
    return {
        setting: env[variable].strip()
        for variable, setting in names.items()
        if variable not in model_variables and env.get(variable, "").strip()
    }


def initial_settings(config: Config) -> tuple[Settings, tuple[str, ...]]:
    """The settings before the library's own: defaults, common variables, refdesk.toml, the environment; and notes.

    A common variable may be meant for another program: one that cannot be used is left out, and that is noted.
    """
    settings, notes = Settings(), list[str]()
    for name, value in config.common_settings.items():
        try:
            settings = settings.changed({name: value})
        except UsageError as error:
            variable = next(common for common, setting in _COMMON_NAMES.items() if setting == name)
            notes.append(f"{variable} is ignored: {error}")
    settings, gone = settings.changed_leniently(config.settings)
    for name, value in config.environment_settings.items():
        try:
            settings = settings.changed({name: value})
        except UsageError as error:
            raise UsageError(f"{variable_of(name)}: {error}", hint=error.hint) from None
    return settings, (*notes, *gone)


def _common_model(env: Mapping[str, str]) -> str:
    """The model that LLM_MODEL names, with LLM_PROVIDER, LLM_BASE_URL or LLM_API_KEY; "" without one of these.

    A name alone may be another program's, and a key alone switches nothing on.
    """
    model, provider = env.get("LLM_MODEL", "").strip(), env.get("LLM_PROVIDER", "").strip().lower()
    address = env.get("LLM_BASE_URL", "").strip().rstrip("/")
    if not model:
        return ""
    if provider:
        if provider not in PROVIDERS:
            logger.warning("LLM_MODEL is ignored: unknown provider '%s' in LLM_PROVIDER", provider)
            return ""
        return model if model.startswith(f"{provider}:") else f"{provider}:{model}"
    if model.partition(":")[0] in PROVIDERS and model.partition(":")[2]:
        return model
    if address:
        known = (provider.name for provider in PROVIDERS.values() if provider.base_url == address)
        return f"{next(known, 'openai')}:{model}"
    return f"{_COMMON_PROVIDER}:{model}" if env.get("LLM_API_KEY", "").strip() else ""


def _model_names(entry: str, value: str) -> str:
    """Checked to be provider:model, or several with commas between where they are fallbacks."""
    for name in value.split(",") if entry == "llm_fallbacks" else [value]:
        try:
            if name.strip():
                split_name(name)
        except UsageError as error:
            raise UsageError(f"{_MODELS[entry]}: {error}", hint=error.hint) from None
    return value.strip()


def _base_url(provider: Provider, named: str, *, is_entered: bool = False) -> str:
    """The provider's own address, or the user's: `localhost:11434` -> `http://localhost:11434/v1` for Ollama."""
    if not named:
        return provider.base_url
    url = named if "://" in named else f"http://{named}"
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        port, host, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        what = f"the address of {provider.name}" if is_entered else provider.base_url_variable
        raise UsageError(f"{what} is not an http or https address", hint="give it as http://host:port/path")
    if provider.name == "ollama" and port is None and parts.scheme == "http":
        url = url.replace(parts.netloc, f"{parts.netloc}:11434", 1)
    if host == "0.0.0.0":  # what a server listens on, and Ollama's variable serves both sides
        url = url.replace("0.0.0.0", "127.0.0.1", 1)
    return url.rstrip("/") + (provider.path if parts.path in ("", "/") else "")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="correct it or remove it") from error
    for name, value in table.items():
        if name not in _TOML:
            raise UsageError(f"{path} has an unknown entry '{name}'", hint=f"allowed names: {', '.join(_TOML)}")
        if type(value) is not _TOML[name]:
            raise UsageError(f"{path}: {name} must be {_WORDS[_TOML[name]]}, not {value!r}")
    return table


# --- files on this machine: who may read them, what their bytes hash to, and what the disk says in words --------------

_STEP = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota, a limit on the size of a file

# Files that nobody but their owner reads: 0600, in folders of 0700. Documents, questions and keys lie in a library.

FILE, FOLDER = 0o600, 0o700
OTHERS = 0o077  # whatever anybody but the owner may do


def make_folder(path: Path) -> None:
    """With those above it; one that is there stays as it is, and one above that is not ours is made as usual."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open(…, opener=opener)`: what is made by it is the owner's alone."""
    return os.open(path, flags, FILE)


def is_closed(folder: Path) -> bool:
    """Whether nothing can be written there: a disk or a folder for reading only."""
    return not os.access(folder, os.W_OK)


def is_open_to_others(path: Path) -> bool:
    """Whether anybody but the owner may do anything with it; not asked on Windows, which has other rights."""
    if os.name == "nt":
        return False
    state = path.lstat()
    return not stat.S_ISLNK(state.st_mode) and bool(state.st_mode & OTHERS)


def open_to_others(folder: Path) -> Iterator[Path]:
    """What lies in a folder, and the folder itself, as far as others may reach it."""
    for place, folders, files in os.walk(folder):
        for path in (Path(place), *(Path(place, name) for name in files)):
            with suppress(OSError):  # gone this moment
                if is_open_to_others(path):
                    yield path
        folders[:] = [name for name in folders if not Path(place, name).is_symlink()]


def close_to_others(folder: Path) -> int:
    """Takes every right from everybody but the owner; gives how many files and folders were changed.

    What belongs to somebody else, or lies on a disk that cannot be written, stays as it is.
    """
    changed = 0
    for path in list(open_to_others(folder)):
        with suppress(OSError):
            path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~OTHERS)
            changed += 1
    return changed


def write_new(data: bytes, folder: Path) -> Path:
    """Writes bytes durably to a file of its own; `Files.adopt` gives it its place."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix="new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise explain(error, folder / "new") from error
    return Path(name)


def hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while step := file.read(_STEP):
            digest.update(step)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Renames are durable once the folder is; Windows has no such call, and does it by itself."""
    if os.name != "nt":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def explain(error: OSError, path: Path) -> LibraryError:
    """An error of the disk in words."""
    if error.errno in _FULL:
        return DiskFull(f"the disk that holds {path.parent} is full")
    return LibraryError(
        f"{path} cannot be written: {error.strerror or error}", hint="check the folder and its permissions"
    )


# Is there a library in this folder? A database that is gone must not pass for a library that was never begun.

DATABASE = "library.db"
_SIGNS = {
    "library.db-wal": "changes that were not yet in the database",
    "files/??/*": "originals",
    "files/waiting/*": "uploads",
    "index/lexical-*": "search indexes",
    "index/vectors-*": "search indexes",
}


def library_files(folder: Path) -> list[str]:
    """What of a library lies in a folder: the database by its name, all else in words; empty of a folder without."""
    found = [DATABASE] if size_of(folder / DATABASE) else []
    for pattern, words in _SIGNS.items():
        if words not in found and any(path.is_dir() or size_of(path) for path in folder.glob(pattern)):
            found.append(words)
    return found


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def damage(path: Path, content_hash: str) -> str:
    """`missing`, `altered` or why it cannot be read; "" for a file that is as it was."""
    try:
        return "altered" if content_hash and hash_file(path) != content_hash else ""
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"not readable ({error.strerror or error})"
