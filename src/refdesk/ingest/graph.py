"""Names and relations that a model finds in chunks, kept only as far as the chunk itself says so.

    "Ada Lund was born in Hestvik."  →  Ada Lund (person), Hestvik (place); Ada Lund · born in · Hestvik

A name or an alias is kept as the chunk writes it, and an alias only where it is a part of the name, or where a sentence
says so: "Acme Corp (the Lessor)", "Bank of England, or BoE". A relation is kept where one sentence holds both names and
the words of the predicate, or where a sentence that holds one name alone goes on about the other, which the sentence
before it holds. That sentence is its proof: it is looked for in the chunk, and the model is not asked for it. What a
sentence denies is not kept. A reply that is malformed is asked for once more, of one chunk at a time, then left out. A
tiny model is asked for less: names without kind and aliases, and relations as lists of three.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refdesk.entities import (
    ALIAS,
    ALSO_CALLED,
    SHORT_FOR,
    Extraction,
    Named,
    Relation,
    entity_key,
    initials,
    key_of,
    names_by_sentence,
)
from refdesk.ingest.summarise import SIDE_BY_SIDE, THOUGHTS, JobModel, SummaryCost, chunk_block
from refdesk.models import estimate, model_info
from refdesk.negation import is_negated
from refdesk.ports import LLM
from refdesk.prompts import EXTRACT_KINDS, EXTRACT_ONE_SCHEMA, EXTRACT_ONE_SYSTEM, EXTRACT_SCHEMA, EXTRACT_SYSTEM
from refdesk.text import STOP_WORDS, is_cjk, query_terms, rough_tokens, terms, words
from refdesk.trace import json_object
from refdesk.types import Chunk, Document

AT_ONCE = 4  # chunks in one request; a tiny model is given one
WRITTEN_TOKENS = 220  # of a chunk's names and relations, on average
LEAST_ROOM = 1_200  # tokens of a reply: a list of names is long where a chunk is one
ROOM_FOR_ONE = 400  # a tiny model's: eight names and eight relations take 200, and each takes it a tenth of a second
MOST_NAMES = MOST_RELATIONS = 40  # of a chunk
LONGEST_NAME, LONGEST_PREDICATE = 120, 80  # characters
MOST_WORDS = 10  # of a name: what is longer is a sentence
SHORTEST_IN_ANY_CASE = 4  # characters: "US" is not "us"
MOST_PLACES = 50  # of a name in a chunk

_SAME = str.maketrans("‘’‚‛′`´“”„‟″«»‐‑‒–—−", "'''''''" + 7 * '"' + 6 * "-")

# What may stand between a name and another one that is the same: a bracket, or a word that says so, and small words.
_NAMING = frozenset(("called", "known", "alias", "aka", "formerly", "hereinafter", "hereafter", "genannt", "dit"))
_SMALL = ("the", "a", "an", "its", "der", "die", "das", "le", "la", "also", "as", "or", "in", "short", "is", "was")
_LINKING = _NAMING | frozenset(_SMALL)


def graph_cost(model: str, chunks: Sequence[Chunk]) -> SummaryCost:
    """What it takes to have a model read these chunks."""
    system, at_once = _way_of(model)
    requests = -(-len(chunks) // at_once)
    read = requests * rough_tokens(system) + sum(rough_tokens(chunk_block(chunk)) for chunk in chunks)
    write = WRITTEN_TOKENS * len(chunks) + THOUGHTS * requests * model_info(model).thinks
    return SummaryCost(model, len(chunks), read, write, estimate(model, read, write) if chunks else 0.0)


def _way_of(model: str) -> tuple[str, int]:
    """What a model is told, and of how many chunks at once."""
    is_tiny = model_info(model).tier == "tiny"
    return (EXTRACT_ONE_SYSTEM, 1) if is_tiny else (EXTRACT_SYSTEM, AT_ONCE)


class Extractor(JobModel):
    """Names and relations of chunks."""

    def __init__(self, model: LLM) -> None:
        super().__init__(model)
        self._system, self._at_once = _way_of(model.name)
        self._unproved = 0

    @property
    def note(self) -> str:
        """What is to be known of the end of it."""
        said = []
        if count := self._left_out:
            said.append(f"no reply that can be used came for {count} chunk{'s' * (count != 1)}")
        if self._unproved:
            said.append(f"left out what the chunks do not say themselves: {self._unproved:,} names and relations")
        return "; ".join(said)

    def batches(self, chunks: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
        """What is written down in one step."""
        size = self._at_once * SIDE_BY_SIDE
        for at in range(0, len(chunks), size):
            yield chunks[at : at + size]

    async def write(self, document: Document, chunks: Sequence[Chunk]) -> list[tuple[Chunk, Extraction]]:
        """What these chunks of one document name; those of which the reply came out usable."""
        some = [chunks[at : at + self._at_once] for at in range(0, len(chunks), self._at_once)]
        found: dict[int, Mapping[str, Any]] = {}
        for said in await asyncio.gather(*(self._asked(document, batch) for batch in some)):
            found |= said
        # A chunk that was asked for by itself gets the same reply again.
        again = [chunk for chunk in chunks if chunk.sequence not in found] if self._at_once > 1 else []
        for said in await asyncio.gather(*(self._asked(document, [chunk]) for chunk in again)):
            found |= said
        self._left_out += len(chunks) - len(found)
        return [(chunk, self._proved(chunk, found[chunk.sequence])) for chunk in chunks if chunk.sequence in found]

    async def _asked(self, document: Document, chunks: Sequence[Chunk]) -> dict[int, Mapping[str, Any]]:
        head = f"Document: {' '.join(document.name.split())}"
        text = "\n\n".join(map(chunk_block, chunks))
        if self._at_once == 1:
            return usable(await self._reply(self._system, head, text, EXTRACT_ONE_SCHEMA, ROOM_FOR_ONE), chunks)
        most = max(LEAST_ROOM, 3 * WRITTEN_TOKENS * len(chunks))
        return usable(await self._reply(self._system, head, text, EXTRACT_SCHEMA, most), chunks)

    def _proved(self, chunk: Chunk, said: Mapping[str, Any]) -> Extraction:
        extraction, unproved = proved(chunk, said)
        self._unproved += unproved
        return extraction


def usable(reply: str, chunks: Sequence[Chunk]) -> dict[int, Mapping[str, Any]]:
    """By sequence number what a model wrote of these chunks; malformed and unknown entries are left out."""
    said = json_object(reply)
    if "names" in said:
        said = _with_keys(said)
    listed = [said] if "entities" in said else said.get("chunks")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    if len(chunks) == len(rows) == 1:  # whatever number it gives
        rows = [rows[0] | {"chunk": chunks[0].sequence}]
    known = {chunk.sequence for chunk in chunks}
    return {
        row["chunk"]: row
        for row in rows
        if type(row.get("chunk")) is int and row["chunk"] in known
        if isinstance(row.get("entities"), list) and isinstance(row.get("relations"), list)
    }


def _with_keys(said: Mapping[str, Any]) -> dict[str, Any]:
    """The lists that a tiny model writes, as other models write them."""
    names, relations = said.get("names"), said.get("relations")
    rows = [row for row in relations if isinstance(row, list) and len(row) == 3] if isinstance(relations, list) else []
    return {
        "entities": [{"name": name} for name in names] if isinstance(names, list) else [],
        "relations": [dict(zip(("subject", "predicate", "object"), row, strict=True)) for row in rows],
    }


# --- what the chunk itself says of it ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Written:
    """A name as the chunk writes it, and the sentences that hold it."""

    name: str
    key: str
    sentences: tuple[int, ...]


def proved(chunk: Chunk, said: Mapping[str, Any]) -> tuple[Extraction, int]:
    """What the chunk itself says of what a model wrote of it, and how many names and relations it does not."""
    reading = _Reading(chunk)
    reading.take_names(said["entities"])
    reading.take_aliases()
    reading.take_relations(said["relations"])
    return Extraction(tuple(reading.names.values()), tuple(reading.relations)), reading.unproved


class _Reading:
    """One chunk, and what is kept of what a model wrote of it."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._text = chunk.text.translate(_SAME)
        self._sentences = [chunk.text[part.start : part.end] for part in chunk.sentences]
        self._by_rule = names_by_sentence(chunk)
        self._keys: dict[str, str] = {}  # by the key of what a name or an alias is called, that of its entity
        self._aliases: list[tuple[_Written, _Written, str]] = []  # with the name it stands for, and its kind
        self._places: dict[str, set[int]] = {}  # by the key of an entity, the sentences that hold one of its names
        self.names: dict[tuple[str, bool], Named] = {}  # by the name, and whether it is an alias
        self.relations: list[Relation] = []
        self.unproved = 0

    # names

    def take_names(self, rows: Sequence[Any]) -> None:
        for row in rows[:MOST_NAMES]:
            called, in_brackets = _split(row.get("name")) if isinstance(row, dict) else ("", ())
            name = self._written(called)
            if name is None:
                self.unproved += 1
                continue
            kind = row.get("kind") if row.get("kind") in EXTRACT_KINDS else "other"
            self.names.setdefault((name.name, False), Named(name.name, kind, name.key, name.sentences))
            self._keys[name.key] = name.key
            self._places.setdefault(name.key, set()).update(name.sentences)
            aliases = row.get("aliases")
            listed = aliases[:MOST_NAMES] if isinstance(aliases, list) else []
            for other in dict.fromkeys([*in_brackets, *(one for one in listed if isinstance(one, str))]):
                alias = self._written(other)
                if alias is None:
                    self.unproved += 1
                elif alias.key != name.key:
                    self._aliases.append((alias, name, kind))

    def take_aliases(self) -> None:
        """What could stand for two of them, or is called an entity of its own, stands for none."""
        stands_for: dict[str, set[str]] = {}
        for alias, name, _ in self._aliases:
            stands_for.setdefault(alias.key, set()).add(name.key)
        entities = set(self._keys)
        for alias, name, kind in self._aliases:
            within = {key for key in entities if f" {alias.key} " in f" {key} "}
            proof = self._same(name, alias)
            is_another = alias.key in entities or len(stands_for[alias.key] | within) > 1
            if is_another or (proof is None and not within):
                self.unproved += 1
                continue
            self.names[alias.name, True] = Named(alias.name, ALIAS, name.key, alias.sentences)
            self._keys[alias.key] = name.key
            self._places[name.key].update(alias.sentences)
            if proof is None:  # a part of the name
                continue
            self.names[alias.name, False] = Named(alias.name, kind, alias.key, alias.sentences)
            is_short = initials(alias.name, name.name)
            ends = (alias.name, SHORT_FOR, name.name) if is_short else (name.name, ALSO_CALLED, alias.name)
            relation = Relation(*ends, self._chunk.id, proof)
            if relation not in self.relations:
                self.relations.append(relation)

    def _same(self, name: _Written, alias: _Written) -> int | None:
        """The sentence that says that both are one."""
        is_acronym = initials(alias.name, name.name)
        for place in name.sentences:
            if place in alias.sentences and (is_acronym or _named_so(self._sentences[place], name.name, alias.name)):
                return place
        return None

    def _written(self, name: object) -> _Written | None:
        """The name as the chunk writes it first; None where it does not stand there, or is no name."""
        plain = " ".join(name.split()).translate(_SAME) if isinstance(name, str) else ""
        if not 0 < len(plain) <= LONGEST_NAME or len(plain.split()) > MOST_WORDS:
            return None
        pattern = _whole(plain)
        found = list(re.finditer(pattern, self._text))
        if not found and len(plain) >= SHORTEST_IN_ANY_CASE:
            found = list(re.finditer(pattern, self._text, re.IGNORECASE))
        if not found:
            return None
        written = " ".join(self._chunk.text[found[0].start() : found[0].end()].split())
        key = key_of(written)
        if not key or all(word in STOP_WORDS for word in words(written)):
            return None
        places = [
            place
            for place, part in enumerate(self._chunk.sentences)
            if any(part.start <= match.start() and match.end() <= part.end for match in found[:MOST_PLACES])
        ]
        return _Written(written, key, tuple(places))

    # relations

    def take_relations(self, rows: Sequence[Any]) -> None:
        names: dict[str, str] = {}
        for named in self.names.values():
            names.setdefault(named.key, named.name)
        for row in rows[:MOST_RELATIONS]:
            ends = [self._end(row.get(side)) if isinstance(row, dict) else "" for side in ("subject", "object")]
            said = row.get("predicate") if isinstance(row, dict) else None
            predicate = self._without_ends(said, row) if isinstance(said, str) else ""
            place = self._proof(ends[0], ends[1], predicate) if 0 < len(predicate) <= LONGEST_PREDICATE else None
            if place is None:
                self.unproved += 1
                continue
            relation = Relation(names[ends[0]], predicate, names[ends[1]], self._chunk.id, place)
            if relation not in self.relations:
                self.relations.append(relation)

    def _without_ends(self, predicate: str, row: Mapping[str, Any]) -> str:
        """A predicate that repeats one of its ends, as small models write it: "built by Moen Yard"."""
        for side in ("subject", "object"):
            plain = " ".join(row[side].split()) if isinstance(row.get(side), str) else ""
            predicate = re.sub(_whole(plain), " ", predicate) if plain else predicate
        return " ".join(predicate.split())

    def _end(self, name: object) -> str:
        """The key of the entity that is called so; "" where none is kept."""
        return self._keys.get(entity_key(name), "") if isinstance(name, str) else ""

    def _proof(self, subject: str, object: str, predicate: str) -> int | None:
        """The sentence that says so of both; None where none does."""
        if not subject or not object or subject == object:
            return None
        of_subject, of_object = self._places[subject], self._places[object]
        for place in sorted(of_subject & of_object):
            if _says(self._sentences[place], predicate):
                return place
        for place in sorted(of_subject ^ of_object):
            other = of_object if place in of_subject else of_subject
            both = " ".join(self._sentences[place - 1 : place + 1])
            if place - 1 in other and self._names_one(place) and _says(both, predicate):
                return place
        return None

    def _names_one(self, place: int) -> bool:
        """Whether nobody else is named in a sentence, of whom it could speak."""
        by_model = {key for key, places in self._places.items() if place in places}
        by_rule = {self._keys.get(key, key) for key in self._by_rule[place]}
        return len(by_model | by_rule) == 1


def _split(name: object) -> tuple[object, Sequence[str]]:
    """ "Nordic Film School (NFS)" is two names."""
    if isinstance(name, str) and name.endswith(")"):
        before, _, inside = name[:-1].rpartition("(")
        if before.strip() and inside.strip():
            return before, (inside,)
    return name, ()


def _named_so(sentence: str, name: str, alias: str) -> bool:
    """Whether a sentence names both as one: in brackets behind, or by a word that says so."""
    text = " ".join(sentence.split())
    first, second = text.find(name), text.find(alias)
    if first < 0 or second < 0:
        return False
    between = text[first + len(name) : second] if first < second else text[second + len(alias) : first]
    said = set(words(between))
    return said <= _LINKING and (between.lstrip()[:1] in ("(", "[") or bool(said & _NAMING))


def _whole(name: str) -> str:
    """A pattern for the name where it is no part of another word; its words may stand on two lines."""
    before = "" if is_cjk(name[0]) or not name[0].isalnum() else r"(?<!\w)"
    after = "" if is_cjk(name[-1]) or not name[-1].isalnum() else r"(?!\w)"
    return before + r"\s+".join(map(re.escape, name.split())) + after


def _says(sentence: str, predicate: str) -> bool:
    """Whether a sentence has the words of a predicate, and denies nothing that the predicate does not."""
    return set(query_terms(predicate)) <= set(terms(sentence)) and is_negated(sentence) == is_negated(predicate)
