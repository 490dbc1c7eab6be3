"""Runtime settings: one frozen value; each field has its public name and help next to its default."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from refdesk.errors import UsageError


def _setting(
    name: str,
    default: Any,
    help: str,
    minimum: float | None = None,
    maximum: float | None = None,
    *,
    choices: Sequence[str] = (),
    per_request: bool = False,
) -> Any:
    metadata = {"name": name, "help": help, "minimum": minimum, "maximum": maximum}
    return field(default=default, metadata=metadata | {"choices": choices, "per_request": per_request})


_per_question = partial(_setting, per_request=True)  # any caller may change it for his own; the others are the owner's
LONGEST_RULES = 4000  # characters: of the smallest window, an eighth
# And what else is registered in refdesk.ask.strategies.
STRATEGIES = ["auto", "dense", "hybrid", "two_stage", "fusion", "graph", "multi_hop", "late_interaction"]


@dataclass(frozen=True)
class Settings:
    """What can be changed without installing anything anew.

    >>> Settings().changed({"rag.top_k": 5}).top_k
    5
    """

    # retrieval
    top_k: int = _per_question("rag.top_k", 10, "Number of chunks a search returns", 1, 1000)
    strategy: str = _per_question(
        "rag.strategy",
        "auto",
        "Search strategy: dense (vectors), hybrid (vectors and BM25), two_stage (deeper hybrid), fusion (also "
        "rephrasings of the question), multi_hop (follows up on the first results), graph (named entities), "
        "late_interaction (by token; needs ingest.token_vectors), survey (a model reads all summaries), hierarchical "
        "(documents first), auto (chosen per question)",
        choices=STRATEGIES,
    )
    query_expansion_enabled: bool = _per_question(
        "rag.query_expansion_enabled",
        False,
        "Also search for rephrasings of the question (adds fusion to the strategy)",
    )
    hyde_enabled: bool = _per_question(
        "rag.hyde_enabled",
        False,
        "Also search for a hypothetical answer written by a model (HyDE; adds fusion to the strategy)",
    )
    knowledge_graph_enabled: bool = _per_question(
        "rag.knowledge_graph_enabled", False, "Also search by named entities (adds graph to the strategy)"
    )
    use_hybrid_search: bool = _per_question(
        "rag.use_hybrid_search", True, "Search with BM25 and vectors; off: vectors only"
    )
    fusion: str = _per_question(
        "rag.fusion",
        "convex",
        "How BM25 and vector results are merged: convex (by score) or rrf (by rank)",
        choices=("convex", "rrf"),
    )
    dense_weight: float = _per_question(
        "rag.dense_weight", 0.75, "Weight of the vector score in convex fusion", 0.0, 1.0
    )
    rrf_k: int = _per_question("rag.rrf_k", 30, "The constant k of reciprocal rank fusion", 1, 1000)
    candidates: int = _per_question(
        "rag.candidates", 20, "Minimum number of chunks each engine contributes to the fusion", 1, 5000
    )
    survey_chunks: int = _per_question(
        "rag.survey_chunks",
        4000,
        "Maximum summaries a survey compares without a model; beyond that, documents are left out",
        10,
        100_000,
    )
    survey_batch_tokens: int = _per_question(
        "rag.survey_batch_tokens",
        50_000,
        "Tokens of summaries per survey request (1.6 times as many if that avoids a second one; at most 4 requests)",
        1000,
        1_000_000,
    )
    similarity_threshold: float = _per_question(
        "rag.similarity_threshold",
        0.35,
        "Chunks with a lower cosine similarity are kept only if they share words with the question",
        -1.0,
        1.0,
    )
    verification_enabled: bool = _per_question(
        "rag.verification_enabled", True, "Drop chunks that are not relevant to the question (self-RAG)"
    )
    rerank: bool = _per_question("rag.rerank", True, "Rerank candidates by their best sentences")
    reranker: str = _setting(
        "rag.reranker", "", "Folder of an ONNX cross-encoder for reranking; empty: rerank by sentences"
    )
    prefer_documents: bool = _per_question(
        "rag.prefer_documents", True, "Prefer documents that the question mentions by name or date"
    )
    deduplication: float = _per_question(
        "rag.deduplication", 0.95, "Cosine similarity above which two chunks count as duplicates", 0.5, 1.0
    )
    mmr_lambda: float = _per_question("rag.mmr_lambda", 0.7, "Weight of relevance against diversity in MMR", 0.0, 1.0)
    glossary_penalty: float = _setting("rag.glossary_penalty", 0.3, "Score penalty for glossaries", 0.0, 1.0)
    credits_penalty: float = _setting("rag.credits_penalty", 0.4, "Score penalty for credits", 0.0, 1.0)
    toc_penalty: float = _setting("rag.toc_penalty", 0.5, "Score penalty for tables of contents", 0.0, 1.0)
    # context
    neighbours: int = _per_question(
        "rag.neighbours", 1, "Chunks added before and after each hit, under the same heading", 0, 10
    )
    context_format: str = _per_question(
        "rag.context_format",
        "numbered",
        "Format of passages for the model: numbered, tagged ([DOC: …]), documents or titled ([Title > Section])",
        choices=("numbered", "tagged", "documents", "titled"),
    )
    max_context_tokens: int = _per_question(
        "rag.max_context_tokens",
        0,
        "Maximum tokens of passages sent to the model; 0: depends on its context window",
        0,
        1_000_000,
    )
    max_context_chars: int = _per_question(
        "rag.max_context_chars", 0, "Maximum characters of the whole prompt; 0: no limit", 0, 10_000_000
    )
    # understanding
    spelling: bool = _per_question(
        "query.spelling", True, "Correct the spelling of words that do not occur in the documents"
    )
    max_question_characters: int = _setting(
        "query.max_characters", 8000, "Maximum length of a question in characters", 10, 100_000
    )
    # answering
    level: str = _per_question(
        "answer.level",
        "standard",
        "How much searching and checking is done; docs/asking.md describes each level",
        choices=("basic", "standard", "enhanced", "maximum"),
    )
    response_mode: str = _per_question(
        "answer.mode",
        "standard",
        "quick: no second model; standard: a verifier model if one is set; thorough: disputes are resolved too",
        choices=("quick", "standard", "thorough"),
    )
    answer_floor: float = _per_question(
        "answer.floor",
        0.45,  # chosen on the half of squad_dev11 that is learned from: 7 % of the answerable questions are refused
        "Minimum probability that the documents contain the answer; below it, Refdesk says they do not",
        0.0,
        1.0,
    )
    max_sentences: int = _per_question(
        "answer.max_sentences", 3, "Maximum sentences quoted for a factual question without a model", 1, 20
    )
    max_answer_tokens: int = _per_question(
        "answer.max_tokens", 0, "Maximum tokens the model may write; 0: depends on its context window", 0, 100_000
    )
    temperature: float = _per_question(
        "answer.temperature", -1.0, "Sampling temperature; -1: chosen to suit the model", -1.0, 2.0
    )
    sampling_top_k: int = _per_question(
        "answer.sampling_top_k",
        0,
        "Top-k sampling: number of likeliest tokens to choose from; 0: the model's default",
        0,
        1000,
    )
    reasoning: bool = _per_question("answer.reasoning", False, "Let the model reason step by step first (not shown)")
    drafts: int = _per_question(
        "answer.drafts",
        0,
        "Number of drafts; only statements found in two of them are kept; 0: 3 at level maximum, otherwise 1",
        0,
        5,
    )
    thinking_tokens: int = _per_question(
        "answer.thinking_tokens",
        8000,
        "Thinking budget in tokens at level maximum, for models that support one",
        1024,
        64_000,
    )
    answer_format: str = _per_question(
        "answer.format",
        "plain",
        "Format of a model's answer: plain or three_part (Summary, Detailed Analysis, Final Answer)",
        choices=("plain", "three_part"),
    )
    suggest_questions: bool = _per_question("answer.suggest_questions", True, "Suggest follow-up questions")
    agent_steps: int = _per_question("agent.max_steps", 6, "Maximum searches in the modes agent and report", 1, 6)
    agent_tokens: int = _setting(
        "agent.max_tokens",
        60_000,
        "Maximum tokens used in these modes before the answer is written",
        1000,
        1_000_000,
    )
    agent_seconds: float = _setting(
        "agent.max_seconds", 120.0, "Maximum seconds these modes search before the answer is written", 1.0, 3600.0
    )
    cost_average_usd: float = _setting(
        "answer.cost_average_usd",
        0.05,
        "Target for the average cost of a question over the last day; above it, the least useful work is skipped",
        0.0,
        100.0,
    )
    cost_limit_usd: float = _setting(
        "answer.cost_limit_usd", 0.5, "Maximum cost of one question; work is reduced to stay below it", 0.0, 100.0
    )
    keep_days: int = _setting("answer.keep_days", 0, "Days to keep answers and their traces; 0: forever", 0, 36_500)
    # the owner's own words in the system message; passages stay data
    house_rules: str = _setting(
        "prompt.rules", "", f"House rules added to the model's instructions, at most {LONGEST_RULES:,} characters"
    )
    collection_rules: str = _setting(
        "prompt.collection_rules", "", 'Additional rules per collection, as JSON: {"finance": "Amounts in euros."}'
    )
    # models: provider:model, as the environment variables of the same meaning; empty: none
    llm_enabled: bool = _setting("llm.enabled", True, "Use the configured models; off: nothing leaves this machine")
    llm_answer: str = _setting("llm.answer", "", "Model that writes answers (REFDESK_LLM); empty: answers are quoted")
    llm_router: str = _setting("llm.router", "", "Model that rewrites and classifies questions (REFDESK_LLM_ROUTER)")
    llm_verifier: str = _setting("llm.verifier", "", "Model that checks answers (REFDESK_LLM_VERIFIER)")
    llm_reconciler: str = _setting("llm.reconciler", "", "Model that resolves disputes (REFDESK_LLM_RECONCILER)")
    llm_summariser: str = _setting(
        "llm.summariser", "", "Model that summarises history and chunks (REFDESK_LLM_SUMMARISER)"
    )
    llm_fallbacks: str = _setting(
        "llm.fallbacks", "", "Fallback models if the answering model fails, separated by commas"
    )
    llm_allowed: str = _setting(
        "llm.allowed",
        "",
        "Models that a question may choose, separated by commas; empty: only the configured one",
    )
    llm_sees: str = _setting(
        "llm.sees",
        "auto",
        "Whether the answering model accepts images; auto: decided by its name",
        choices=("auto", "yes", "no"),
    )
    llm_timeout_s: float = _setting(
        "llm.timeout_s", 120.0, "Seconds to wait for the next part of a model's reply", 0.1, 3600.0
    )
    llm_total_s: float = _setting(
        "llm.total_s", 600.0, "Maximum seconds for a model's whole answer; then it is cut off", 1.0, 86_400.0
    )
    llm_max_answer_kb: int = _setting(
        "llm.max_answer_kb", 256, "Maximum size of a model's answer in kilobytes; then it is cut off", 1, 16_384
    )
    llm_tries: int = _setting("llm.tries", 3, "Maximum attempts per request", 1, 10)
    breaker_failures: int = _setting(
        "llm.breaker_failures", 5, "Consecutive failed questions before a model is skipped", 1, 1000
    )
    breaker_seconds: float = _setting("llm.breaker_seconds", 60.0, "Seconds a failing model is skipped", 0.1, 86_400.0)
    # cache
    cache_enabled: bool = _per_question("cache.enabled", True, "Answer repeated questions from the cache")
    cache_max_entries: int = _setting("cache.max_entries", 1000, "Maximum number of cached questions", 1, 1_000_000)
    cache_ttl_s: int = _setting(
        "cache.default_ttl_seconds", 300, "Seconds a cached answer is used for similar questions", 1
    )
    cache_exact_ttl_s: int = _setting(
        "cache.exact_ttl_seconds", 86_400, "Seconds a cached answer is used for the same question", 1
    )
    cache_threshold_mode: str = _per_question(
        "cache.threshold_mode",
        "adaptive",
        "Cosine similarity two questions need: precision .95, recall .85, adaptive: by their length",
        choices=("precision", "recall", "adaptive"),
    )
    cache_recent_entries: int = _setting(
        "cache.recent_entries",
        128,
        "Cached answers each process keeps in memory; the others are read from the library",
        1,
        100_000,
    )
    cache_hits_entries: int = _setting(
        "cache.hits_entries",
        128,
        "Questions whose search results each process caches; 0: none",
        0,
        10_000,
    )
    cache_context_entries: int = _setting(
        "cache.context_entries", 128, "Questions whose assembled context each process caches; 0: none", 0, 10_000
    )
    # conversation
    query_rewriting_enabled: bool = _per_question(
        "conversation.query_rewriting_enabled", True, "Rewrite follow-up questions so that they stand alone"
    )
    db_rehydration_enabled: bool = _per_question(
        "conversation.db_rehydration_enabled", True, "Load earlier turns of a conversation from the library"
    )
    max_history_turns: int = _per_question(
        "conversation.max_history_turns", 15, "Maximum number of earlier exchanges to remember", 0, 1000
    )
    # ingest
    chunk_target: int = _setting("ingest.chunk_target", 200, "Target chunk size in tokens", 20, 8000)
    chunk_minimum: int = _setting("ingest.chunk_minimum", 60, "Minimum chunk size in tokens, where possible", 1, 8000)
    chunk_maximum: int = _setting(
        "ingest.chunk_maximum", 256, "Maximum chunk size in tokens; the embedder's window if that is smaller", 32, 8192
    )
    chunk_overlap: int = _setting("ingest.chunk_overlap", 1, "Sentences repeated from the previous chunk", 0, 5)
    token_vectors: bool = _setting(
        "ingest.token_vectors", False, "Store a vector per token, for late interaction; 14 to 28 kB per chunk"
    )
    token_model: str = _setting(
        "ingest.token_model", "", "Folder of a ColBERT model (ONNX) for these vectors; empty: the built-in embedder"
    )
    ocr: bool = _setting("ingest.ocr", True, "Use OCR on pages without a text layer (needs refdesk[ocr])")
    max_file_mb: int = _setting("ingest.max_file_mb", 512, "Maximum file size in MB", 1, 16384)
    max_pages: int = _setting("ingest.max_pages", 20_000, "Maximum number of pages per document", 1, 1_000_000)
    max_characters: int = _setting(
        "ingest.max_characters", 50_000_000, "Maximum number of characters per document", 1000
    )
    max_unpacked_mb: int = _setting(
        "ingest.max_unpacked_mb", 1024, "Maximum unpacked size of an archive (DOCX, XLSX, EPUB) in MB", 1
    )
    time_limit_s: int = _setting("ingest.time_limit_s", 300, "Maximum seconds of parsing without finishing a page", 1)
    file_time_limit_s: int = _setting("ingest.file_time_limit_s", 7200, "Maximum seconds to parse a whole document", 1)
    memory_limit_mb: int = _setting("ingest.memory_limit_mb", 4096, "Maximum memory per parsing process in MB", 512)
    workers: int = _setting("ingest.workers", 0, "Number of parsing processes; 0: one per core, at most 8", 0, 64)
    # what the network may hand in
    max_upload_mb: int = _setting(
        "serve.max_upload_mb", 200, "Maximum size of an uploaded or fetched file in MB", 1, 16384
    )
    fetch_networks: str = _setting(
        "serve.fetch_networks",
        "",
        "Private networks that documents may be fetched from, separated by commas (10.1.0.0/16); empty: none",
    )
    # serving
    labels: str = _setting(
        "serve.labels",
        "",
        "Display names of collections, separated by commas (finance/2024=Finance 2024); empty: their paths",
    )
    requests_per_hour: int = _setting(
        "serve.requests_per_hour", 10_000, "Maximum requests per key and hour; 0: no limit", 0, 10_000_000
    )
    concurrent_asks: int = _setting(
        "serve.concurrent_asks", 20, "Maximum concurrent questions per key; 0: no limit", 0, 10_000
    )
    adds: bool = _setting(
        "serve.adds", True, "Process uploads in the server itself; false: leave them to `refdesk worker`"
    )
    max_waiting: int = _setting(
        "serve.max_waiting",
        10_000,
        "Maximum uploads in the queue; more are refused until there is room; 0: no limit",
        0,
    )
    session_days: int = _setting("serve.session_days", 14, "Days until a sign-in expires", 1, 365)

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """These settings with some values replaced, each named by its public name and checked."""
        by_name = {spec.metadata["name"]: spec for spec in fields(self)}
        updates: dict[str, Any] = {}
        for name, value in values.items():
            if name not in by_name:
                raise _unknown(name)
            updates[by_name[name].name] = _checked(name, value, by_name[name])
        new = replace(self, **updates)
        if not new.chunk_minimum <= new.chunk_target <= new.chunk_maximum:
            raise UsageError(
                f"ingest.chunk_minimum, _target and _maximum must be in ascending order, not {new.chunk_minimum},"
                f" {new.chunk_target}, {new.chunk_maximum}"
            )
        return new

    def changed_leniently(self, values: Mapping[str, Any]) -> tuple[Settings, tuple[str, ...]]:
        """`changed`, but what an earlier version offered and this one does not is left out; what was, and why."""
        gone = {name: _is_gone(name, value) for name, value in values.items()}
        kept = {name: value for name, value in values.items() if not gone[name]}
        return self.changed(kept), tuple(f"{why}; it is ignored" for why in gone.values() if why)

    def for_request(self, values: Mapping[str, Any]) -> Settings:
        """`changed`, for a caller who does not own the library: only what concerns his own question."""
        closed = {spec.metadata["name"] for spec in fields(self) if not spec.metadata["per_request"]}
        if refused := sorted(closed.intersection(values)):
            raise UsageError(f"{refused[0]} cannot be changed for one question", hint="change it in the settings")
        return self.changed(values)

    def items(self) -> Iterator[tuple[str, Any, str]]:
        """(name, value, help) of every setting, in order."""
        for spec in fields(self):
            yield spec.metadata["name"], getattr(self, spec.name), spec.metadata["help"]

    # Every question asks for these, and settings seldom change: each is made once for each set of them.

    @cached_property
    def by_name(self) -> Mapping[str, Any]:
        return {name: value for name, value, _ in self.items()}

    @cached_property
    def fingerprint(self) -> str:
        """Twelve characters that are equal exactly when all settings are."""
        text = json.dumps(self.by_name, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    @cached_property
    def of_models(self) -> str:
        """All that says which models are asked, and how."""
        return str([(name, value) for name, value in self.by_name.items() if name.startswith("llm.")])


@dataclass(frozen=True, slots=True)
class Spec:
    """What the program says of a setting, in the command line, the docs and over HTTP."""

    name: str
    default: Any
    help: str
    minimum: float | None
    maximum: float | None
    choices: Sequence[str]
    per_request: bool

    @property
    def section(self) -> str:
        """`rag.top_k` -> `rag`."""
        return self.name.partition(".")[0]

    @property
    def allowed(self) -> str:
        """`1 to 1000`, `convex or rrf`, `true or false`."""
        if self.choices:
            return _either(self.choices)
        if self.minimum is None:
            return _word(type(self.default))
        return f"{self.minimum} or more" if self.maximum is None else f"{self.minimum} to {self.maximum}"


def specs() -> tuple[Spec, ...]:
    """Of every setting, in order."""
    return tuple(Spec(default=spec.default, **spec.metadata) for spec in fields(Settings))


# Once offered, though they did nothing. A settings file that still has one must not stop the library from opening.
REMOVED_SETTINGS = frozenset({"answer.ensemble_voting"})  # answer.drafts is what does it now
REMOVED_VALUES: Mapping[str, frozenset[str]] = {}  # values of settings


def _unknown(name: str) -> UsageError:
    if name in REMOVED_SETTINGS:
        return UsageError(f"the setting '{name}' was removed: it had no effect", hint="remove it")
    return UsageError(f"there is no setting '{name}'", hint="see docs/settings.md")


def _is_gone(name: str, value: Any) -> str:
    """Why a value of an earlier version is no longer one; empty when it still is."""
    if name in REMOVED_SETTINGS:
        return str(_unknown(name))
    if isinstance(value, str) and value in REMOVED_VALUES.get(name, ()):
        return f"{name} '{value}' was removed: it had no effect of its own"
    return ""


# What a person picks without reading the table; each is a change to the defaults.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "speed": {"answer.level": "basic", "answer.mode": "quick", "rag.top_k": 5, "rag.neighbours": 0},
    "balanced": {},
    "quality": {"answer.level": "enhanced", "answer.mode": "thorough", "rag.top_k": 15, "rag.candidates": 50},
    "offline": {"llm.enabled": False},
}
ONLINE = "llm.enabled"


def preset(name: str) -> tuple[Mapping[str, Any], frozenset[str]]:
    """What a preset sets, and what it resets to the default: all that another preset would have set.

    Only `balanced` puts `llm.enabled` back: nothing begins to leave the machine because somebody wanted more quality.
    """
    if name not in PRESETS:
        raise UsageError(f"there is no preset '{name}'", hint=f"use {_either(tuple(PRESETS))}")
    others = frozenset(setting for values in PRESETS.values() for setting in values) - PRESETS[name].keys()
    return PRESETS[name], others if name == "balanced" else others - {ONLINE}


def _checked(name: str, value: Any, spec: Any) -> Any:
    kind = type(spec.default)
    try:
        if kind is bool and isinstance(value, str):
            value = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[value.lower()]
        if isinstance(value, bool) != (kind is bool) or (kind is int and float(value) != int(value)):
            raise ValueError
        value = kind(value)
        if kind is float and not math.isfinite(value):
            raise ValueError
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} must be {_word(kind)}, not {value!r}") from None
    low, high = spec.metadata["minimum"], spec.metadata["maximum"]
    if high is None and low is not None and value < low:
        raise UsageError(f"{name} must be at least {low}, not {value}")
    if low is not None and high is not None and not low <= value <= high:
        raise UsageError(f"{name} must be between {low} and {high}, not {value}")
    if name in RULES:
        _check_rules(name, value)
    if gone := _is_gone(name, value):
        raise UsageError(gone, hint=f"use {_either(spec.metadata['choices'])}")
    if (choices := spec.metadata["choices"]) and value not in choices:
        raise UsageError(f"{name} must be {_either(choices)}, not {value!r}")
    if name == LABELS:
        labels_by_collection(value)
    return value


LABELS = "serve.labels"


@lru_cache(maxsize=8)
def labels_by_collection(text: str) -> Mapping[str, str]:
    """`"finance/2024=Finance 2024, hr=People"` -> the name that is shown for each of these collections."""
    found = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        path, _, label = (part.strip() for part in pair.partition("="))
        if not path or not label:
            raise UsageError(
                f"{LABELS} has '{pair}', which is not COLLECTION=LABEL", hint="write finance=Finance, hr=Staff"
            )
        found[path.strip("/")] = label
    return found


RULES = ("prompt.rules", "prompt.collection_rules")


def _check_rules(name: str, value: str) -> None:
    for rules in rules_by_collection(value).values() if name == RULES[1] else (value,):
        if len(rules) > LONGEST_RULES:
            raise UsageError(f"house rules can have at most {LONGEST_RULES:,} characters, not {len(rules):,}")


def rules_by_collection(text: str) -> dict[str, str]:
    """`'{"finance": "Amounts in euros."}'` -> the same as a mapping; empty for an empty text."""
    try:
        found = json.loads(text) if text.strip() else {}
        if isinstance(found, dict) and all(isinstance(rules, str) and name.strip() for name, rules in found.items()):
            return {name.strip().strip("/"): rules for name, rules in found.items()}
    except ValueError:
        pass
    raise UsageError(
        "prompt.collection_rules must be a JSON object of collections and their rules",
        hint='write {"finance": "Amounts in euros."}',
    )


def _word(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"
