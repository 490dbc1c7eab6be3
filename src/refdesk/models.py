"""What is known about a model by its name: provider, context window, best settings, price.

    model_info("groq:llama-3.1-8b-instant") -> provider groq, family llama-3.1, 8 billion, small, window 131,072

Nothing here calls anyone; of a GGUF file, its head is read. Prices are those that `genai-prices` has in its package.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from refdesk.errors import UsageError

Tier = Literal["tiny", "small", "medium", "large"]
Wire = Literal["openai", "anthropic", "gguf"]
Thinking = Literal["", "effort", "budget", "adaptive"]  # how a model is told to think longer; "": it cannot be told


@dataclass(frozen=True, slots=True)
class Provider:
    """Who serves models, and the variables its own SDK reads; the first key variable that is set counts.

    `path` is added to a base URL that names only a host, as the provider's own SDK does.
    """

    name: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    base_url_variable: str = ""
    path: str = ""
    is_local: bool = False
    wire: Wire = "openai"
    price_name: str = ""  # in genai-prices, where it is called otherwise

    @property
    def is_file(self) -> bool:
        """Its models are files on this machine: there is no address and no key."""
        return self.wire == "gguf"

    @property
    def needs_key(self) -> bool:
        """At its own address; a base URL of the user's own may need none."""
        return not self.is_local


def _hosted(
    name: str, base_url: str, *keys: str, price_name: str = "", path: str = "", wire: Wire = "openai"
) -> Provider:
    return Provider(name, base_url, keys, f"{name.upper()}_BASE_URL", path, wire=wire, price_name=price_name or name)


def _local(name: str, base_url: str, *keys: str, variable: str = "") -> Provider:
    return Provider(name, base_url, keys, variable or f"{name.upper()}_BASE_URL", "/v1", is_local=True)


PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        _hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        _hosted("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", wire="anthropic"),
        _hosted(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            *("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            price_name="google",
        ),
        _hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", path="/openai/v1"),
        _hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        _hosted("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
        _hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        _hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        _hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        _hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", path="/v1"),
        _hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY", price_name="x-ai"),
        _hosted("cohere", "https://api.cohere.ai/compatibility/v1", "CO_API_KEY", "COHERE_API_KEY"),
        _hosted("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", price_name="moonshotai"),
        _local("ollama", "http://127.0.0.1:11434/v1", "OLLAMA_API_KEY", variable="OLLAMA_HOST"),
        _local("vllm", "http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
        _local("llamacpp", "http://127.0.0.1:8080/v1", "LLAMA_API_KEY"),
        _local("lmstudio", "http://127.0.0.1:1234/v1"),
        Provider("gguf", "", is_local=True, wire="gguf"),  # the model is the path of a file, and runs in this process
    )
}


OWN = "own"  # of a model that a program brings along (providers/given.py): nobody else knows it
OWN_PROVIDER = Provider(OWN, "", is_local=True)


def split_name(name: str) -> tuple[Provider, str]:
    """`"ollama:qwen2.5:14b"` -> (the provider ollama, `"qwen2.5:14b"`)."""
    provider, _, model = name.strip().partition(":")
    if not model.strip() or provider not in PROVIDERS:
        what = f"unknown provider '{provider}'" if model.strip() else f"'{name}' is not provider:model"
        raise UsageError(
            f"{what}; known providers: {', '.join(PROVIDERS)}",
            hint="for any other OpenAI-compatible endpoint, use openai:MODEL and set OPENAI_BASE_URL",
        )
    return PROVIDERS[provider], model.strip()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a model is; `keeps_sampling`: it refuses another temperature; `thinks`: what it writes begins unseen."""

    provider: str
    model: str
    family: str
    context_window: int
    temperature: float
    top_p: float
    billions: float | None
    tier: Tier
    is_local: bool
    keeps_sampling: bool = False
    thinks: bool = False
    thinking: Thinking = ""
    sees: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """`window` where it is served by its maker or another house; `local_window` where the user runs it himself."""

    name: str
    pattern: str
    window: int
    temperature: float
    top_p: float
    local_window: int = 0  # 0: as `window`
    tier: Tier | None = None  # of hosted models whose name tells no size
    keeps_sampling: bool = False
    thinks: bool = False


# The local windows of 8,000 and the sampling of llama 3.1 and 3.2, mistral, qwen 2.5, gpt-4 and claude 3 are those of
# seed 001 step 9; a runner at home seldom has memory for more, and Ollama cuts a longer prompt without a word.
# Of the others: windows as their makers publish them, temperature .3 for models that follow sources, and none sent
# to those that refuse it. The first pattern that is found counts.
FAMILIES: tuple[Family, ...] = (
    Family("gpt-5", r"\bgpt-?[5-9]", 400_000, 1.0, 1.0, tier="large", keeps_sampling=True, thinks=True),
    Family("o-series", r"\bo[1-9](\b|-)", 200_000, 1.0, 1.0, tier="large", keeps_sampling=True, thinks=True),
    Family("gpt-oss", r"gpt-oss", 131_072, 1.0, 1.0, 8_000, thinks=True),
    Family("gpt-4.1", r"gpt-4\.1", 1_047_576, 0.3, 0.9, tier="large"),
    Family("gpt-4o", r"gpt-4o", 128_000, 0.3, 0.9, tier="large"),
    Family("gpt-4", r"gpt-4", 128_000, 0.7, 0.9, tier="large"),
    Family("gpt-3.5", r"gpt-3\.5", 16_385, 0.3, 0.9, tier="medium"),
    Family("claude-3", r"claude-(3|2|instant)", 200_000, 0.7, 0.9, tier="large"),
    Family("claude-4", r"claude-(opus|sonnet|haiku)-4([-.][0-6]\b|-\d{8}|$|@)", 200_000, 0.3, 1.0, tier="large"),
    Family("claude", r"claude", 200_000, 1.0, 1.0, tier="large", keeps_sampling=True),  # from Opus 4.7 on
    Family("gemini", r"gemini", 1_048_576, 0.3, 0.95, tier="large", thinks=True),
    Family("deepseek-r1", r"deepseek.*(r1|reasoner)", 64_000, 0.6, 0.95, 8_000, tier="large", thinks=True),
    Family("deepseek", r"deepseek", 64_000, 0.3, 0.95, 8_000, tier="large"),
    Family("llama-4", r"llama-?4", 131_072, 0.3, 0.9, 32_000),
    Family("llama-3.3", r"llama-?3\.3", 131_072, 0.3, 0.9, 8_000),
    Family("llama-3.2", r"llama-?3\.2", 131_072, 0.3, 0.7, 8_000),
    Family("llama-3.1", r"llama-?3\.1", 131_072, 0.5, 0.8, 8_000),
    Family("llama-3", r"llama-?3", 8_192, 0.5, 0.8),
    Family("llama", r"llama", 4_096, 0.5, 0.8),
    Family("mistral", r"(mi|mini|magi|dev|code)stral|mixtral", 128_000, 0.5, 0.8, 8_000),
    Family("qwen-3", r"qwen-?3", 131_072, 0.7, 0.8, 32_000, thinks=True),
    Family("qwen-2.5", r"qwen-?2\.5", 32_000, 0.7, 0.95),
    Family("qwen", r"qwen|qwq", 32_000, 0.7, 0.95),
    Family("gemma", r"gemma", 131_072, 0.5, 0.95, 8_000),
    Family("phi", r"\bphi", 16_000, 0.3, 0.9, 8_000),
    Family("smollm", r"smollm", 8_192, 0.2, 0.9, 8_000),
    Family("command", r"command|c4ai", 128_000, 0.3, 0.75, 8_000, tier="large"),
    Family("grok", r"grok", 131_072, 0.3, 0.95, tier="large"),
    Family("kimi", r"kimi|moonshot", 131_072, 0.6, 0.95, tier="large"),
    Family("glm", r"\bglm", 131_072, 0.3, 0.95, 8_000),
)
# Of a model in a file: its memory is taken when it is loaded, 30 kB a token for 1.5 billion parameters. The longest
# prompt of a model of up to 9 billion has 5,000 tokens of passages.
FILE_WINDOW = 8_192
# Models that take pictures, by their makers' lists; of any other, `llm.sees` says.
SEEING = (
    r"gpt-?[5-9]|gpt-4o|gpt-4\.1|gpt-4-turbo|\bo[134]\b(?!-mini)|\bo4-mini|claude-(?!2|instant)|gemini|pixtral"
    r"|llama-?4|vision|llava|[-_.]?vl\b|[-_]vl[-_:]|qwen\d?(?:\.\d)?-?vl|gemma-?3(?!:1b|-1b|:270m|-270m)|minicpm-v|moondream"
    r"|mistral-(?:small|medium)|grok-[4-9]|phi-?[34].*(?:vision|multimodal)|internvl"
)
UNKNOWN = Family("unknown", "", 32_000, 0.3, 0.9, 8_000)
# Names that tell a size where none is written: (pattern, billions), checked before the tier of the family.
SIZES_BY_WORD = (
    (r"mistral[-:]large|mixtral-8x22b", 123.0),
    (r"mistral-medium|magistral-medium|codestral|devstral", 24.0),
    (r"mistral-small|magistral-small", 24.0),
    (r"ministral|mistral-nemo|open-mistral|^mistral(:latest)?$", 8.0),
    (r"^llama-?3\.3", 70.0),
    (r"^llama-?3\.2", 3.0),
    (r"^llama-?3(\.1)?(:latest)?$", 8.0),
    (r"^qwen2\.5(:latest)?$", 7.0),
    (r"llama-?4", 109.0),
    (r"^qwen3(:latest)?$|^deepseek-r1(:latest)?$", 8.0),
    (r"^gemma3(:latest)?$|\bphi-?[34].*mini", 4.0),
    (r"\bphi-?4", 14.0),
)
TIERS: tuple[tuple[float, Tier], ...] = ((3.0, "tiny"), (9.0, "small"), (34.0, "medium"))  # seed 001 step 8; else large


def model_info(name: str) -> ModelInfo:
    """Of any `provider:model`, known or not; an unknown one is taken for small where it runs at home, else medium.

    >>> model_info("ollama:qwen2.5:14b").tier
    'medium'
    """
    if name.startswith(f"{OWN}:"):
        return _info(OWN_PROVIDER, name.removeprefix(f"{OWN}:"), None)
    provider, model = split_name(name)
    return _info(provider, model, _head(model) if provider.is_file else None)


def _head(path: str) -> GgufHead | None:
    try:
        return read_head(Path(path).expanduser().absolute())
    except UsageError:
        return None  # said where the model is made; until then its name tells what it can


@lru_cache(maxsize=256)
def _info(provider: Provider, model: str, head: GgufHead | None) -> ModelInfo:
    """By the name of the model; what the head of its file says goes before."""
    low = (head.name or Path(model).name).lower().replace(" ", "-") if head else model.lower()
    family = next((family for family in FAMILIES if re.search(family.pattern, low)), UNKNOWN)
    billions = head.billions if head else size_in_billions(model)
    is_cloud = low.endswith("-cloud")  # Ollama's name for what it runs elsewhere
    window = (provider.is_local and not is_cloud and family.local_window) or family.window
    tier = _tier(billions) or family.tier or ("small" if provider.is_local else "medium")
    if head:
        window = min(head.window or family.window, FILE_WINDOW)
    return ModelInfo(
        provider=provider.name,
        model=model,
        family=family.name,
        context_window=window,
        temperature=0.0 if head and tier == "tiny" else family.temperature,  # it is to copy, and chance makes it invent
        top_p=family.top_p,
        billions=billions,
        tier=tier,
        is_local=provider.is_local and not is_cloud,
        keeps_sampling=family.keeps_sampling,
        thinks=family.thinks,
        thinking=_thinking(provider, family, low),
        sees=re.search(SEEING, low) is not None,
    )


def _thinking(provider: Provider, family: Family, model: str) -> Thinking:
    """Anthropic's take a number of tokens from 3.7 on, and since Opus 4.7 an effort, and think as long as they like."""
    if provider.wire == "anthropic":
        by_family: Mapping[str, Thinking] = {"claude-4": "budget", "claude": "adaptive"}
        return "budget" if "claude-3-7" in model else by_family.get(family.name, "")
    return "effort" if family.thinks and provider.wire == "openai" else ""


def size_in_billions(model: str) -> float | None:
    """`"llama-3.1-8b-instant"` -> 8.0, `"qwen2.5:14b"` -> 14.0, `"mixtral-8x7b"` -> 56.0, `"SmolLM2-135M"` -> 0.135."""
    low = model.lower()
    if found := re.search(r"(?<![\w.])e?(?:(\d+)x)?(\d+(?:\.\d+)?)(b|m)(?![a-z0-9])", low.replace("_", "-")):
        times, number, unit = found.groups()
        return float(times or 1) * float(number) / (1 if unit == "b" else 1000)
    return next((size for pattern, size in SIZES_BY_WORD if re.search(pattern, low)), None)


def _tier(billions: float | None) -> Tier | None:
    if billions is None:
        return None
    return next((tier for most, tier in TIERS if billions <= most), "large")


THOUGHTS = 1_500  # tokens that a model adds which thinks before it writes


def estimate(name: str, prompt_tokens: int, completion_tokens: int) -> float | None:
    """What a call of this size costs in US dollars; 0 for a model that runs at home, None where no price is known.

    `genai-prices` reads the table in its package; only its `UpdatePrices`, which is not used here, asks the network.
    """
    from genai_prices import Usage as PricedUsage
    from genai_prices import calc_price

    info = model_info(name)
    if info.is_local:
        return 0.0
    tokens = PricedUsage(input_tokens=prompt_tokens, output_tokens=completion_tokens)
    try:
        return float(calc_price(tokens, info.model, provider_id=PROVIDERS[info.provider].price_name).total_price)
    except (LookupError, ValueError):
        return None


# --- what does a GGUF file say of the model in it? Its family, its size and its context window, from its head alone ---
#     read_head(Path("model.gguf")) -> GgufHead(architecture="qwen2", name="Qwen2.5 1.5B", window=32768, billions=1.54)
# The format is ggml's: `GGUF`, a version, counts, then named values and the shapes of the tensors.


MAGIC = b"GGUF"
VERSIONS = (2, 3)
HINT = "give the path of a file that ends in .gguf, as gguf:/path/to/model.gguf"
STRING, ARRAY = 8, 9
# Type of a value -> how it is packed; all little-endian.
_PACKED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MOST = 1 << 24  # entries of anything in the head: a damaged count ends here, not in hours


@dataclass(frozen=True, slots=True)
class GgufHead:
    """`window` is what the model was made for, 0 where the file does not say it."""

    architecture: str
    name: str
    window: int
    billions: float


def read_head(path: Path) -> GgufHead:
    """A `UsageError` in one sentence when there is no such file, or none of this kind."""
    try:
        found = path.stat()
    except OSError as error:
        raise UsageError(f"there is no file {path}", hint=HINT) from error
    if not path.is_file():
        raise UsageError(f"{path} is not a file", hint=HINT)
    return _read(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, changed: int, size: int) -> GgufHead:
    """Once for each state of a file: its words are listed in the head, which takes a tenth of a second."""
    try:
        with path.open("rb") as file:
            if size < 24 or file.read(4) != MAGIC:
                raise UsageError(f"{path} is not a GGUF file", hint=HINT)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return _Head(mapped).read()
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    except (struct.error, ValueError) as error:  # what is not Unicode is a ValueError too
        raise UsageError(f"{path} is a damaged GGUF file", hint="download it again") from error


class _Head:
    """Reads forward through the mapped file."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self._mapped, self._at = mapped, len(MAGIC)

    def read(self) -> GgufHead:
        version, tensors, count = self._take("I"), self._take("Q"), self._take("Q")
        if version not in VERSIONS or tensors > _MOST or count > _MOST:
            raise ValueError(f"version {version}")
        values = {self._text(): self._value() for _ in range(count)}
        architecture = str(values.get("general.architecture", ""))
        return GgufHead(
            architecture=architecture,
            name=str(values.get("general.name", "")),
            window=int(values.get(f"{architecture}.context_length", 0)),
            billions=sum(self._tensor() for _ in range(tensors)) / 1e9,
        )

    def _take(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._mapped, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def _skip_text(self) -> None:
        (size,) = struct.unpack_from("<Q", self._mapped, self._at)
        self._at += 8 + size

    def _text(self) -> str:
        begin = self._at + 8
        self._skip_text()
        return self._mapped[begin : self._at].decode()

    def _value(self) -> Any:
        """A number or a text; of lists, which hold the vocabulary, nothing."""
        kind = self._take("I")
        if kind == STRING:
            return self._text()
        if kind != ARRAY:
            return self._take(_PACKED[kind]) if kind in _PACKED else self._unknown(kind)
        inner, count = self._take("I"), self._take("Q")
        if count > _MOST:
            raise ValueError("too long a list")
        if inner == STRING:
            for _ in range(count):
                self._skip_text()
        else:
            self._at += count * struct.calcsize(_PACKED[inner] if inner in _PACKED else self._unknown(inner))
        return None

    def _unknown(self, kind: int) -> Any:
        raise ValueError(f"values of kind {kind}")

    def _tensor(self) -> int:
        """How many numbers one has; where they lie is not asked."""
        self._skip_text()
        size = 1
        for _ in range(self._take("I")):
            size *= self._take("Q")
        self._take("I"), self._take("Q")
        return int(size)
