"""What may be sent about documents? The requests as OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import ConfigDict, Field, model_validator

from refdesk.serve.http.shapes import Name, Shape

Metadata = Annotated[
    dict[Annotated[str, Field(max_length=200)], Annotated[str, Field(max_length=10_000)]], Field(max_length=100)
]

DocumentId = Annotated[str, Path(min_length=1, max_length=100, description="The document's id.")]
CollectionName = Annotated[str, Path(min_length=1, max_length=1000, description="Its whole path: `finance/2024`.")]
UploadId = Annotated[str, Path(min_length=1, max_length=100, description="The upload's id.")]


class UrlIn(Shape):
    url: Annotated[str, Field(min_length=1, max_length=2000)]
    collection: Annotated[str, Field(max_length=1000)] = ""
    metadata: Metadata | None = None
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.org/report.pdf", "collection": "finance/2024"}]}
    )


class ChangeIn(Shape):
    name: Name | None = None
    collection: Name | None = None
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "prices.pdf", "collection": "finance/2024"}]})

    @model_validator(mode="after")
    def _changes(self) -> ChangeIn:
        if self.name is None and self.collection is None:
            raise ValueError("name a new name or a new collection")
        return self


class DocumentsIn(Shape):
    documents: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100)]], Field(min_length=1, max_length=1000)
    ]
    model_config = ConfigDict(json_schema_extra={"examples": [{"documents": ["b4f2c6d1a0937e55"]}]})


class MoveIn(DocumentsIn):
    collection: Name
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"documents": ["b4f2c6d1a0937e55"], "collection": "finance/2024"}]}
    )


class RenameIn(Shape):
    name: Name
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "finance/2024"}]})


class RetryIn(Shape):
    password: Annotated[str, Field(max_length=1000)] | None = None
    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"password": "sesame"}]})
