"""The built-in models: tokenizer, embedder, reader and judge, as int8 ONNX on the CPU, without torch or downloads.

Each pass reads one text, or one pair of them. A batch shares the ranges its activations are quantised by, so that what
is computed of a text would depend on its neighbours (cosine down to .991 between batches of 1 and 8), and from 60
tokens on a batch is hardly faster (docs/embedding.md). Several cores work on several texts instead.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk.errors import ModelError
from refdesk.ports import Embedded
from refdesk.text import terms
from refdesk.types import UNIT, Chunk, FoundSpan, Reading, Sentence

# From 1.31 on, onnxruntime writes an id of the machine into the home folder and reports its use to its maker, also when
# the OCR loads it. It asks this variable when it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# --- the tokenizer: WordPiece, the same for all of them ---------------------------------------------------------------
# Plain Python: words come again and again, so most are looked up. On ASCII text it takes a third of the time of the
# `tokenizers` library, elsewhere as much, and it does not bring that library's download client (34 MB) along. A test
# holds it to `tokenizers`; it differs only on letters younger than that library's Unicode tables.

ASSETS = Path(__file__).parent.parent / "assets"
MODEL_FILE, TOKENIZER_FILE = "minilm-l6-v2.int8.onnx", "tokenizer.json"
READER_FILE, JUDGE_FILE, NAMES_FILE = "reader.int8.onnx", "judge.int8.onnx", "row_names.npz"
SHA256 = {
    MODEL_FILE: "7b564170e959dab28f063c4d3f6403004541d21db90b2efe9be0eca037fc2043",
    TOKENIZER_FILE: "9114256b104cca80e04367526f03f46aa3c443c2ed174904142a73bbf13b9fbb",
    READER_FILE: "353a6161f5856080f771a10f69f53bc6b1d7e9c917f04304306922c93c1faa49",
    JUDGE_FILE: "3c6216b251ababe67a4257d004548079b057c318e099ecae93eae601e9a49618",
}
UNKNOWN = 100  # [UNK]
LONGEST_WORD = 100  # characters; a longer one is unknown, as in tokenizer.json
MOST_WORDS = 50_000  # remembered

_PLAIN_WORD = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_WORD = re.compile(r"[^ ]+")
_IDEOGRAPHS = (  # each is a word of its own; the ranges of BERT
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)),
    *((0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class ShippedTokenizer:
    """Loaded when first used; safe to share between threads.

    >>> ShippedTokenizer().count(["Pumps fail.", ""])
    [3, 0]
    """

    def __init__(self, assets: Path = ASSETS) -> None:
        self._assets = assets

    def count(self, texts: Sequence[str]) -> list[int]:
        word_pieces = self._load()
        return [word_pieces.count(text) for text in texts]

    def encode(self, text: str, limit: int) -> tuple[list[int], NDArray[np.int32]]:
        """The first `limit` tokens and where each begins in the text, special tokens left out."""
        ids, starts = self._load().encode(text)
        return ids[:limit], np.array(starts[:limit], dtype=np.int32)

    def cut(self, text: str, limit: int) -> str:
        """The text up to its first `limit` tokens, well formed."""
        text = well_formed(text)
        _, starts = self.encode(text, limit + 1)
        return text[: int(starts[limit])] if len(starts) > limit else text

    def _load(self) -> WordPieces:
        with _loading_tokens:
            return _word_pieces(self._assets)


class WordPieces:
    """`"Pumps fail."` -> the ids of "pumps", "fail" and ".", which begin at 0, 6 and 10."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._vocabulary = vocabulary
        self._words: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._letters: dict[str, str] = {}
        self._counts = _Counts(self._pieces)

    def count(self, text: str) -> int:
        """How many pieces it has; where they begin takes twice the time."""
        if text.isascii() and not _CONTROL.search(text):
            return sum(map(self._counts.__getitem__, _PLAIN_WORD.findall(text.lower())))
        return len(self.encode(text)[0])

    def encode(self, text: str) -> tuple[list[int], list[int]]:
        """(ids, where each begins)."""
        ids: list[int] = []
        starts: list[int] = []
        if text.isascii() and not _CONTROL.search(text):
            for word in _PLAIN_WORD.finditer(text.lower()):
                word_ids, inside = self._pieces(word.group())
                ids += word_ids
                start = word.start()
                starts += [start + place for place in inside]
            return ids, starts
        parts = [self._letters.get(letter) or self._plain(letter) for letter in well_formed(text)]
        places = [place for place, part in enumerate(parts) for _ in part]
        for word in _WORD.finditer("".join(parts)):
            word_ids, inside = self._pieces(word.group())
            ids += word_ids
            start = word.start()
            starts += [places[start + place] for place in inside]
        return ids, starts

    def _pieces(self, word: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the longest known beginning, then of the rest: "pumping" -> "pump", "##ing"; all or nothing."""
        known = self._words.get(word)
        if known is not None:
            return known
        ids: list[int] = []
        starts: list[int] = []
        start = 0
        while start < len(word) <= LONGEST_WORD:
            ends = range(len(word), start, -1)
            prefix = "##" if start else ""
            end = next((end for end in ends if prefix + word[start:end] in self._vocabulary), 0)
            if not end:
                break
            ids.append(self._vocabulary[prefix + word[start:end]])
            starts.append(start)
            start = end
        pieces = (tuple(ids), tuple(starts)) if start == len(word) else ((UNKNOWN,), (0,))
        if len(self._words) >= MOST_WORDS:
            self._words.clear()
        self._words[word] = pieces
        return pieces

    def _plain(self, letter: str) -> str:
        """ "É" -> "e", "中" -> " 中 ", "–" -> " – ", a line end -> " ", a control character -> ""."""
        if letter in "\t\n\r":
            plain = " "
        elif letter == "\ufffd" or unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs"):
            plain = ""
        elif letter.isspace():
            plain = " "
        elif any(first <= ord(letter) <= last for first, last in _IDEOGRAPHS):
            plain = f" {letter} "
        else:
            parts = [
                part.lower() for part in unicodedata.normalize("NFD", letter) if unicodedata.category(part) != "Mn"
            ]
            plain = "".join(f" {part} " if _is_punctuation(part) else part for part in parts)
        self._letters[letter] = plain
        return plain


class _Counts(dict[str, int]):
    """Of words that were met, how many pieces each has."""

    def __init__(self, pieces: Callable[[str], tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, word: str) -> int:
        if len(self) >= MOST_WORDS:
            self.clear()
        found = self[word] = len(self._pieces(word)[0])
        return found


def _is_punctuation(letter: str) -> bool:
    is_ascii_sign = letter.isascii() and letter.isprintable() and not letter.isalnum()
    return is_ascii_sign or unicodedata.category(letter).startswith("P")


_loading_tokens = threading.Lock()


@cache
def _word_pieces(assets: Path) -> WordPieces:
    return WordPieces(orjson.loads(read_asset(assets / TOKENIZER_FILE))["model"]["vocab"])


def well_formed(text: str) -> str:
    """The text with halves of surrogate pairs, which no encoder takes, as "?"; its length stays.

    >>> well_formed("a\\ud800b")
    'a?b'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def read_asset(path: Path) -> bytes:
    """The bytes of a shipped file, as they were shipped."""
    hint = "reinstall Refdesk"
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise ModelError(f"The model file {path} cannot be read ({reason})", hint=hint) from error
    if hashlib.sha256(data).hexdigest() != SHA256[path.name]:
        raise ModelError(f"The model file {path} is damaged ({len(data)} bytes, not as shipped)", hint=hint)
    return data


# --- the embedder: all-MiniLM-L6-v2 -----------------------------------------------------------------------------------
# One forward pass over a chunk gives its vector (the mean of its token states) and one vector per sentence (the mean
# over the tokens of that sentence).

OPENING, CLOSING = 101, 102  # [CLS] and [SEP]


class OnnxEmbedder:
    """Text to vectors with the shipped model; safe to share between threads, cheap until first used.

    `threads` is how many chunks are embedded at the same time; 0 takes every core this process may use.

    >>> OnnxEmbedder().embed_query("Which pump failed?").shape
    (384,)
    """

    name = "minilm-l6-v2-int8"
    dimensions = 384
    max_tokens = 256  # the length it was trained for; positions up to 512 exist but were never fine-tuned

    def __init__(self, threads: int = 0, assets: Path = ASSETS) -> None:
        self._threads = threads if threads > 0 else _cores()
        self._assets = assets
        self._tokenizer = ShippedTokenizer(assets)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._tokenizer.count(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        ids, _ = self._tokenizer.encode(text, self.max_tokens - 2)
        return _unit(self._token_states(ids).mean(axis=0))

    def token_vectors(self, text: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The number of every token, and its states in the fourth layer and in the last; special ones left out."""
        ids, _ = self._tokenizer.encode(text, self.max_tokens - 2)
        row = np.array([[OPENING, *ids, CLOSING]], dtype=np.int64)
        with _loading:
            session = _layered_session(self._assets)
        layers = run_model(session, "embedding model", input_ids=row, attention_mask=np.ones_like(row))
        return np.array(ids, dtype=np.int32), np.concatenate(layers[::-1], axis=1)[1:-1]

    def embed_chunks(self, chunks: Sequence[Chunk]) -> list[Embedded]:
        workers = min(self._threads, len(chunks))
        if workers <= 1:
            return [self._embed_chunk(chunk) for chunk in chunks]
        self._load()
        with ThreadPoolExecutor(workers, thread_name_prefix="embed") as pool:
            return list(pool.map(self._embed_chunk, chunks))

    def _embed_chunk(self, chunk: Chunk) -> Embedded:
        prefix = f"{chunk.context}\n" if chunk.context else ""
        ids, starts = self._tokenizer.encode(prefix + chunk.text, self.max_tokens - 2)
        states = self._token_states(ids)
        vector = _unit(states.mean(axis=0))
        return Embedded(vector, _sentence_vectors(states[1:-1], starts - len(prefix), chunk.sentences, vector))

    def _token_states(self, ids: list[int]) -> NDArray[np.float32]:
        """The last hidden states of [CLS], the tokens and [SEP]."""
        row = np.array([[OPENING, *ids, CLOSING]], dtype=np.int64)
        states: NDArray[np.float32]
        (states,) = run_model(self._load(), "embedding model", input_ids=row, attention_mask=np.ones_like(row))
        return states

    def _load(self) -> Any:
        with _loading:
            return _session(self._assets)


# Loaded once in a process, however many libraries it opens: the model is 60 MB, and a tenth of a second to load.
_loading = threading.Lock()


@cache
def _session(assets: Path) -> Any:
    return one_thread_session(read_asset(assets / MODEL_FILE))


# What an earlier layer knows of a token is nearer to the word, what the last one knows nearer to the text around it.
FOURTH_LAYER = b"/layers.3/narrow_norm/LayerNormalization_output_0"


@cache
def _layered_session(assets: Path) -> Any:
    """The same model with the states of its fourth layer as a second output; only for libraries that keep tokens."""
    # A file of protocol buffers may be continued: `graph` (7) { `output` (12) { `name` (1) } } adds one to the list.
    output = _field(7, _field(12, _field(1, FOURTH_LAYER)))
    return one_thread_session(read_asset(assets / MODEL_FILE) + output)


def _field(number: int, content: bytes) -> bytes:
    """A field of protocol buffers that has a length, which is below 128 here."""
    return bytes([number << 3 | 2, len(content)]) + content


def one_thread_session(model: bytes | str) -> Any:
    """An ONNX model that computes on its caller's thread: 2 texts on 2 cores beat 1 text on both, and nothing spins."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # a plan is kept for each length of text, 254 of them
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_model(session: Any, name: str, **inputs: NDArray[Any]) -> list[NDArray[np.float32]]:
    """What a session gives for one text, without the batch around it; `name` is for the message where it fails."""
    try:
        outputs = session.run(None, inputs)
    except Exception as error:  # onnxruntime's errors share no base class
        length = inputs["input_ids"].shape[1]
        raise ModelError(f"The {name} failed on a text of {length} tokens: {error}") from error
    return [output[0] for output in outputs]


def run_pair(session: Any, name: str, first: Sequence[int], second: Sequence[int]) -> list[NDArray[np.float32]]:
    """The same for two texts that are read together."""
    ids = np.array([[OPENING, *first, CLOSING, *second, CLOSING]], dtype=np.int64)
    types = (np.arange(ids.shape[1]) >= len(first) + 2).astype(np.int64)[None]
    mask = np.ones(ids.shape, dtype=np.float32)
    return run_model(session, name, input_ids=ids, token_types=types, attention_mask=mask)


def _sentence_vectors(
    states: NDArray[np.float32], starts: NDArray[np.int32], sentences: Sequence[Sentence], whole: NDArray[np.float32]
) -> NDArray[np.int8]:
    """The mean token state of each sentence; one that has no token in the window gets the vector of the chunk."""
    if not sentences:
        return np.zeros((0, len(whole)), dtype=np.int8)
    first = np.searchsorted(starts, [sentence.start for sentence in sentences]).tolist()
    last = np.searchsorted(starts, [sentence.end for sentence in sentences]).tolist()
    # Slices, not one matrix product: BLAS would wake a second thread for it, and keep it spinning.
    means = [states[a:b].mean(axis=0) if a < b else whole for a, b in zip(first, last, strict=True)]
    vectors: NDArray[np.float32] = np.stack(means)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows: NDArray[np.int8] = np.rint(vectors * UNIT).astype(np.int8)
    return rows


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def _cores() -> int:
    """Cores this process may use, which a container makes fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- the reader and the judge: what does a passage say to a question, does a plan over a table answer it? ------------
# Two small networks; `training/` makes their files. The judge shares the reader's word vectors: its file names the
# place in the reader's where they stand, so it is opened by its path, beside the reader.

LENGTH, QUESTION, CLAIM, TITLE = 256, 48, 96, 20  # tokens of a pair and of its parts, as in training
LONGEST_SPAN = 30  # tokens
UNKNOWN_LENGTH = 100.0  # of the vector of a word that nothing was learned of: as long as those of rare ones

Floats = NDArray[np.float32]


class OnnxReader:
    """A `Reader` with the shipped model; safe to share between threads, loaded when first used."""

    name = "reader-int8"

    def __init__(self, assets: Path = ASSETS) -> None:
        self._assets = assets
        self._tokenizer = ShippedTokenizer(assets)
        self._judge = OnnxJudge(assets)

    def judge_plans(self, question: str, stated: Sequence[str]) -> list[float]:
        return self._judge.plans(question, stated)

    def judge_claim(self, claim: str, evidence: str, title: str) -> float:
        return self._judge.claim(claim, evidence, title).supported

    def name_vectors(self, names: Sequence[str]) -> Floats:
        learned = _learned_names(self._assets)
        return name_vectors([learned.spelled(name) for name in names], learned.words)

    def spelled(self, name: str) -> str:
        return _learned_names(self._assets).spelled(name)

    def meant_row(self, name: str, rows: Sequence[str]) -> tuple[int, float]:
        learned = _learned_names(self._assets)
        spelled = learned.spelled(name)
        best, features = row_features(spelled, rows, learned.words, _row_vectors(self._assets, tuple(rows)))
        *weights, constant = learned.means.tolist()
        return best, float(1.0 / (1.0 + np.exp(-(np.dot(weights, features) + constant))))

    def read(self, question: str, chunk: Chunk) -> Reading:
        asked, _ = self._tokenizer.encode(question, QUESTION)
        above, _ = self._tokenizer.encode(chunk.context, TITLE)
        text, places = self._tokenizer.encode(chunk.text, LENGTH - 3 - len(asked) - len(above))
        begin = len(asked) + 2 + len(above)
        judged, starts, ends = run_pair(self._load(), "reader", asked, [*above, *text])
        window = slice(begin, begin + len(text))
        spans = _spans(starts[window], ends[window], places, chunk)
        return Reading(float(judged[0]), float(judged[1]), spans, len(starts))

    def _load(self) -> Any:
        with _loading_reader:
            return _reader_session(self._assets)


_loading_reader = threading.Lock()


@cache
def _reader_session(assets: Path) -> Any:
    return one_thread_session(read_asset(assets / "reader" / READER_FILE))


class LearnedNames(NamedTuple):
    """From `training/row_names.py`: a vector for each stem, and how sure one is that near names mean the same."""

    words: dict[str, Floats]
    means: Floats
    short: dict[str, str]  # "cogs": "cost of goods sold"

    def spelled(self, name: str) -> str:
        """With its short forms spelled out."""
        return _SHORT.sub(lambda match: self.short.get(match.group().lower(), match.group()), name)


_SHORT = re.compile(r"[^\W\d_]+(?:&[^\W\d_]+)?")


@cache
def _learned_names(assets: Path) -> LearnedNames:
    with np.load(assets / NAMES_FILE) as kept:
        stems, vectors = kept["stems"].tobytes().decode().split("\n"), kept["vectors"].astype(np.float32)
        short = dict(line.split("\t") for line in kept["short"].tobytes().decode().split("\n"))
        return LearnedNames(dict(zip(stems, vectors, strict=True)), kept["means"], short)


def name_vectors(names: Sequence[str], known: Mapping[str, Floats]) -> Floats:
    """The sum of the vectors of a name's words, of length 1; an unknown word has one of its own, unlike any other."""
    size = len(next(iter(known.values())))
    found = np.zeros((len(names), size), np.float32)
    for row, name in zip(found, names, strict=True):
        for stem in terms(name):
            row += known[stem] if stem in known else _unknown(stem, size)
    unit: Floats = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)
    return unit


@lru_cache(maxsize=1024)
def _unknown(stem: str, size: int) -> Floats:
    numbers = np.random.default_rng(zlib.crc32(stem.encode())).standard_normal(size)
    found: Floats = (UNKNOWN_LENGTH / size**0.5 * numbers).astype(np.float32)
    return found


@lru_cache(maxsize=128)  # the rows of a table, or of all tables of a document, which are asked for again
def _row_vectors(assets: Path, rows: tuple[str, ...]) -> Floats:
    return name_vectors(rows, _learned_names(assets).words)


def row_features(
    name: str, rows: Sequence[str], known: Mapping[str, Floats], vectors: Floats
) -> tuple[int, list[float]]:
    """The row that is nearest to a name, and what tells whether it is the one that is meant.

    How near it is, how much nearer than the next, and how near the word of the name that is least like any of the row.
    """
    near = vectors @ name_vectors([name], known)[0]
    best, *others = np.argsort(-near)[:2].tolist()
    words = name_vectors(list(dict.fromkeys(terms(name))) or [name], known)
    row_vectors = name_vectors(list(dict.fromkeys(terms(rows[best]))) or [rows[best]], known)
    least = float((words @ row_vectors.T).max(axis=1).min())
    return best, [float(near[best]), float(near[best] - near[others[0]]) if others else float(near[best]), least]


def _spans(starts: Floats, ends: Floats, places: NDArray[np.int32], chunk: Chunk) -> tuple[FoundSpan | None, ...]:
    """The likeliest answer within each sentence; None for a sentence beyond what was read."""
    first = np.searchsorted(places, [sentence.start for sentence in chunk.sentences]).tolist()
    last = np.searchsorted(places, [sentence.end for sentence in chunk.sentences]).tolist()
    found: list[FoundSpan | None] = []
    for sentence, low, high in zip(chunk.sentences, first, last, strict=True):
        if low == high:
            found.append(None)
            continue
        scores = starts[low:high, None] + ends[None, low:high]
        away = np.arange(high - low)[None] - np.arange(high - low)[:, None]
        scores[(away < 0) | (away >= LONGEST_SPAN)] = -np.inf
        begin, end = divmod(int(scores.argmax()), high - low)
        until = int(places[low + end + 1]) if low + end + 1 < len(places) else sentence.end
        found.append(_whole_words(chunk.text, int(places[low + begin]), min(until, sentence.end), scores[begin, end]))
    return tuple(found)


def _whole_words(text: str, start: int, end: int, score: np.float32) -> FoundSpan:
    """The span without the space behind it, and with the rest of the words that it cuts."""
    while end > start and text[end - 1].isspace():
        end -= 1
    while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while 0 < end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        end += 1
    return FoundSpan(start, end, float(score))


# --- the judge --------------------------------------------------------------------------------------------------------


class PairLogits(NamedTuple):
    """Logits of a pair. Of a claim `supported` counts, of a plan `planned`; 0 is the logit of no plan at all."""

    relevant: float
    answered: float
    supported: float
    planned: float


class OnnxJudge:
    """Safe to share between threads, loaded when first used."""

    name = "judge-int8"

    def __init__(self, assets: Path = ASSETS) -> None:
        self._assets = assets
        self._tokenizer = ShippedTokenizer(assets)

    def plans(self, question: str, stated: Sequence[str]) -> list[float]:
        """How well each of these plans, as `ask.plans.stated` says them, answers the question."""
        asked = self._tokenizer.encode(question, QUESTION)[0]
        room = LENGTH - 3 - len(asked)
        return [self._judged(asked, self._tokenizer.encode(plan, room)[0]).planned for plan in stated]

    def claim(self, claim: str, evidence: str, title: str = "") -> PairLogits:
        """`evidence`: the sentences that share most with the claim, about 160 words; `title`: of their page."""
        claim_tokens = self._tokenizer.encode(claim, CLAIM)[0]
        above = self._tokenizer.encode(title, TITLE)[0]
        text = self._tokenizer.encode(evidence, LENGTH - 3 - len(claim_tokens) - len(above))[0]
        return self._judged(claim_tokens, [*above, *text])

    def _judged(self, first: Sequence[int], second: Sequence[int]) -> PairLogits:
        return PairLogits(*run_pair(self._load(), "judge", first, second)[0].tolist())

    def _load(self) -> Any:
        with _loading_reader:
            return _judge_session(self._assets)


@cache
def _judge_session(assets: Path) -> Any:
    for name in (READER_FILE, JUDGE_FILE):  # other bytes in the reader's file would be other words here
        read_asset(assets / "reader" / name)
    return one_thread_session(str(assets / "reader" / JUDGE_FILE))
