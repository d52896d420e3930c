"""What to do when a test fails."""

from typing import Any, Literal

from pydantic import AliasChoices, Field, model_validator

from penstock.config import FrozenModel


class Alert(FrozenModel):
    """Send an alert."""

    type: str | None = None
    """The kind of alert: `slack`, `pagerduty`, `webhook`, `email`."""
    channel: str | None = None
    """The channel. It may also hold one of the values of `type`."""
    url: str | None = None
    """The address."""
    webhook: str | None = None
    """The webhook address of a chat."""
    routing_key: str | None = None
    """The PagerDuty routing key."""
    severity: str | None = None
    """The severity."""
    message: str | None = None
    """The message."""


class PauseModel(FrozenModel):
    """Stop a model's query."""

    model: str | None = None
    """The model. Default: the tested model."""

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
    """Write rows that fail as dead letters."""

    model: str | None = None
    """A model. It has no effect: dead letters are stored with those of the tested model."""
    topic: str | None = None
    """A topic. It has no effect: dead letters are stored with those of the tested model."""
    include_error: bool = False
    """Whether to include the reason. It has no effect: dead letters have the reason."""
    include_metadata: bool = False
    """Whether to include the position in the topic. It has no effect."""


class Action(FrozenModel):
    """One action for a failed test."""

    alert: Alert | None = None
    """Send an alert."""
    pause: PauseModel | None = Field(None, validation_alias=AliasChoices("pause", "pause_model"))
    """Stop a model's query. `pause_model` is the same field."""
    dlq: DeadLetters | None = None
    """Write rows that fail as dead letters."""
    block_deploy: bool | None = None
    """Refuse to deploy."""


class OnFailure(FrozenModel):
    """What to do when a test fails: a mapping, or only the list of actions."""

    severity: Literal["error", "warning"] = "error"
    """Whether a failure fails the command."""
    actions: tuple[Action, ...] = ()
    """What to do, in order."""

    @model_validator(mode="before")
    @classmethod
    def _from_actions(cls, value: Any) -> Any:
        return {"actions": value} if isinstance(value, list) else value
