"""Who may read what, and what is covered."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from penstock.config import FrozenModel, TextPattern, Whole

Classification = Literal["public", "internal", "confidential", "sensitive", "highly_sensitive"]
"""How delicate a column is, from harmless to most delicate."""

Policy = Literal["hash", "partial", "redact", "tokenize", "null"]


def _null_as_text(value: object) -> object:
    return "null" if value is None else value


_VARIABLE: Final = TextPattern(
    "[A-Za-z_][A-Za-z0-9_]*",
    "the name of a variable has letters (a to z, in either case), digits and `_`, no digit first",
)


class MaskConfig(FrozenModel):
    """How a mask covers."""

    visible_chars: Whole = Field(4, ge=0)
    """`partial`: how many characters at the end stay readable."""
    algorithm: Literal["md5", "sha256"] = "md5"
    """`hash`: the function."""
    salt: str | None = Field(None, min_length=1)
    """`hash`: text put before the value, so that equal values of two projects differ. Write it as `${NAME}`."""
    key: Annotated[str, _VARIABLE] = "PENSTOCK_TOKEN_KEY"
    """`tokenize`: the environment variable that holds the key. It is read when the query starts, and kept nowhere."""


class Mask(FrozenModel):
    """How one column is covered in what a model puts out."""

    column: str
    """The column: of the model's output, or of one of its inputs; then every output made from it is covered."""
    policy: Annotated[
        Policy,
        BeforeValidator(_null_as_text, json_schema_input_type=Policy | None),
        Field(validation_alias=AliasChoices("policy", "method")),
    ]
    """`hash` (MD5, or SHA-256), `partial` (the last characters stay), `redact` (`***`), `tokenize` (a keyed,
    irreversible token, the same for equal values), `null`. `method` is the same field."""
    config: MaskConfig = MaskConfig()
    """How it covers."""
    for_roles: tuple[str, ...] = ()
    """The roles that are to see the masked value. A topic is the same for everybody, so the mask is for all."""


class Rule(FrozenModel):
    """Who may or may not read, in the words of a gateway."""

    roles: tuple[str, ...] = ()
    """The roles."""
    groups: tuple[str, ...] = ()
    """The groups."""
    columns: tuple[str, ...] = ()
    """The columns."""
    purpose: str | None = None
    """What for."""


class PolicyEntry(FrozenModel):
    """One policy of the older form: `mask`, `allow` or `deny`."""

    mask: Mask | None = None
    """The same as an entry of `masking`."""
    allow: Rule | None = None
    """Who may read. A topic has no such list; a gateway or the broker's own must see to it."""
    deny: Rule | None = None
    """Who may not read. See `allow`."""

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("name one of `mask`, `allow`, `deny`")
        return self


class Security(FrozenModel):
    """What is delicate in a model's output, and how it is covered."""

    classification: dict[str, Classification] = {}
    """Columns and how delicate they are."""
    masking: tuple[Mask, ...] = ()
    """Columns that are covered before they are written."""
    policies: tuple[PolicyEntry, ...] = ()
    """The older form of `masking`."""

    @property
    def masks(self) -> tuple[Mask, ...]:
        """Every mask, in whichever form it was written."""
        return (*self.masking, *(entry.mask for entry in self.policies if entry.mask is not None))


Level = Literal["public", "protected", "private"]


class Access(FrozenModel):
    """Who may read a model."""

    level: Level = "protected"
    """`public`: anybody. `protected`: its own group, and those in `allowed_groups`. `private`: its own group in this
    project, and no exposure outside it."""
    allowed_groups: tuple[str, ...] = ()
    """Groups that may read a protected model; a reader's `group` or `owner` counts."""

    @model_validator(mode="before")
    @classmethod
    def _from_level(cls, value: Any) -> Any:
        return {"level": value} if isinstance(value, str) else value
