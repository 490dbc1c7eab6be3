"""What is known already, and what is kept? The cache before a question, the conversation and the cache after it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from refdesk.answer import Answer, Cached, Query, Question, Turn, Usage
from refdesk.answer_codec import decode_answer, encode_answer
from refdesk.ask.desk import Desk
from refdesk.ask.finish import offered
from refdesk.ask.likeness import same_question, threshold
from refdesk.ask.memory import exchanges_kept, remember, summarise
from refdesk.ask.recall import realm
from refdesk.events import Content, Done, Event
from refdesk.models import model_info
from refdesk.ports import LLM
from refdesk.trace import Trace

HANDED_IN = 20  # messages of a caller's own history: the last ten exchanges (seed 000)
NEAREST = 5  # earlier questions a new one is compared with
