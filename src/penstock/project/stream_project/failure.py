"""What to do when a test fails."""

from typing import Any, Literal

from pydantic import AliasChoices, Field, model_validator

from penstock.config import FrozenModel


class Alert(FrozenModel):
    """Tell somebody."""

    type: str | None = None
    """How: `slack`, `pagerduty`, `webhook`, `email`."""
    channel: str | None = None
    """Where: a channel, or the same words as `type`."""
    url: str | None = None
    """Where, as an address."""
    webhook: str | None = None
    """Where, as an address of a chat."""
    routing_key: str | None = None
    """Where, as a key of PagerDuty."""
    severity: str | None = None
    """How bad."""
    message: str | None = None
    """What to say."""


class PauseModel(FrozenModel):
    """Stop a model's query."""

    model: str | None = None
    """The model; the tested one when left out."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        match value:
            case str():
                return {"model": value}
            case True:
                return {}
            case _:
                return value


class DeadLetters(FrozenModel):
    """Send rows that fail to another place."""

    model: str | None = None
    """The model that they go to."""
    topic: str | None = None
    """The topic that they go to."""
    include_error: bool = False
    """Whether the reason goes with them."""
    include_metadata: bool = False
    """Whether their place in the topic goes with them."""


class Action(FrozenModel):
    """One thing to do when a test fails."""

    alert: Alert | None = None
    """Tell somebody."""
    pause: PauseModel | None = Field(None, validation_alias=AliasChoices("pause", "pause_model"))
    """Stop a model's query. `pause_model` is the same field."""
    dlq: DeadLetters | None = None
    """Send rows that fail to another place."""
    block_deploy: bool | None = None
    """Refuse to deploy."""


class OnFailure(FrozenModel):
    """What to do when a test fails: a mapping, or just the list of actions."""

    severity: Literal["error", "warning"] = "error"
    """Whether a failure fails the command."""
    actions: tuple[Action, ...] = ()
    """What to do, in order."""

    @model_validator(mode="before")
    @classmethod
    def _from_actions(cls, value: Any) -> Any:
        return {"actions": value} if isinstance(value, list) else value
