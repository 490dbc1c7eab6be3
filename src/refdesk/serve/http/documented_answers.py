"""How does OpenAPI show an answer, and the events on the way to it?"""

from __future__ import annotations

from refdesk.answer import Answer, Citation, Claim, Confidence, Source, Sufficiency
from refdesk.geometry import Box
from refdesk.serve.http.answer_shapes import (
    ContentEvent,
    DoneEvent,
    ErrorEvent,
    Feedback,
    ReplaceEvent,
    SourcesEvent,
    ThinkingEvent,
    VerificationEvent,
)
from refdesk.serve.http.documented import gives, gives_events
from refdesk.serve.http.seeds import answer_shape

SENTENCE = "The price list is revised every January."
EXAMPLE = Answer(
    id="0f3a9c",
    question="When is the price list revised?",
    content=f"{SENTENCE} [1]",
    claims=(Claim(SENTENCE, 0, 44, markers=(1,), citations=(0,), verdict="supported", score=0.97),),
    citations=(
        Citation(
            marker=1,
            document_id="b4f2c6d1a0937e55",
            document_name="price-list.pdf",
            chunk_id=17,
            chunk_sequence=3,
            heading_path=("Prices", "Revision"),
            page=2,
            boxes=(Box(2, 10.0, 41.5, 63.0, 1.6),),
            located=True,
            quote=SENTENCE,
            relevance_score=0.91,
            similarity_score=0.83,
            origin=(1804, 1844),
        ),
    ),
    sources=(Source("b4f2c6d1a0937e55", "price-list.pdf", "Price list 2026", (2,), (1,), "default"),),
    confidence=Confidence(0.9, "high", "one passage says it in the question's words"),
    sufficiency=Sufficiency(is_sufficient=True, coverage_score=1.0),
    standalone_question="When is the price list revised?",
    metrics={"retrieve_ms": 12.2, "total_ms": 31.4, "chunks_retrieved": 10},
    conversation_id="tuesday",
    trace_id="0f3a9c",
)
FEEDBACK: Feedback = {
    "answer_id": "0f3a9c",
    "owner": "3c9a1f",
    "verdict": "correct",
    "correction": "",
    "created_at": "2026-01-31T09:02:00.000+00:00",
}
ANSWER = gives(Answer, answer_shape(EXAMPLE), description="The answer")
KEPT_ANSWER = gives("KeptAnswer", answer_shape(EXAMPLE) | {"feedback": [FEEDBACK]}, description="The answer")

# What of it is long is cut.
TOLD = (
    ("thinking", '{"step":"retrieve","text":"Searching 9 documents"}'),
    ("sources", '{"citations":[{"marker":1,"chunk_id":17,"page":2,"text":"The price list is revised …"}]}'),
    ("content", '{"token":"The price list is revised every January. "}'),
    ("content", '{"token":"[1]"}'),
    ("verification", '{"status":"checking","notes":[]}'),
    ("verification", '{"status":"verified","notes":["every sentence was checked against the lines it cites"]}'),
    ("done", '{"answer":{"id":"0f3a9c","content":"The price list is … [1]"},"traceUrl":"/api/traces/0f3a9c"}'),
)
EVENTS = gives_events(
    {
        "thinking": ThinkingEvent,
        "sources": SourcesEvent,
        "content": ContentEvent,
        "verification": VerificationEvent,
        "replace": ReplaceEvent,
        "done": DoneEvent,
        "error": ErrorEvent,
    },
    "".join(
        f"id: 19a85c3e5f04f1c8a12be90-{number}\nevent: {name}\ndata: {data}\n\n"
        for number, (name, data) in enumerate(TOLD, 1)
    ),
)
