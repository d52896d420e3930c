"""The base of all manifest models."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
