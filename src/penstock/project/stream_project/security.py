"""Access, classification and masking."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from penstock.config import FrozenModel, TextPattern, Whole

Classification = Literal["public", "internal", "confidential", "sensitive", "highly_sensitive"]
"""The sensitivity of a column, from the lowest to the highest."""

Policy = Literal["hash", "partial", "redact", "tokenize", "null"]


def _null_as_text(value: object) -> object:
    return "null" if value is None else value


_VARIABLE: Final = TextPattern(
    "[A-Za-z_][A-Za-z0-9_]*",
    "a variable name has letters (a-z, A-Z), digits and `_`, and does not begin with a digit",
)


class MaskConfig(FrozenModel):
    """Settings of a mask."""

    visible_chars: Whole = Field(4, ge=0)
    """`partial`: the number of characters at the end that stay visible."""
    algorithm: Literal["md5", "sha256"] = "md5"
    """`hash`: the function."""
    salt: str | None = Field(None, min_length=1)
    """`hash`: text before the value, so that equal values of two projects give different hashes. Write it as
    `${NAME}`."""
    key: Annotated[str, _VARIABLE] = "PENSTOCK_TOKEN_KEY"
    """`tokenize`: the environment variable that holds the key. It is read when the query starts, and is not stored."""


class Mask(FrozenModel):
    """The mask of one column in the output of a model."""

    column: str
    """A column of the model's output. Or a column of one of its inputs: then every output that shows it is masked."""
    policy: Annotated[
        Policy,
        BeforeValidator(_null_as_text, json_schema_input_type=Policy | None),
        Field(validation_alias=AliasChoices("policy", "method")),
    ]
    """`hash` (MD5, or SHA-256), `partial` (the last characters stay), `redact` (`***`), `tokenize` (a keyed,
    irreversible token, the same for equal values), `null`. `method` is the same field."""
    config: MaskConfig = MaskConfig()
    """Settings of the mask."""
    for_roles: tuple[str, ...] = ()
    """The roles that see the masked value. It has no effect: every reader of a topic gets the same rows, so the mask
    applies to all."""


class Rule(FrozenModel):
    """A rule about who may read."""

    roles: tuple[str, ...] = ()
    """The roles."""
    groups: tuple[str, ...] = ()
    """The groups."""
    columns: tuple[str, ...] = ()
    """The columns."""
    purpose: str | None = None
    """The purpose."""


class PolicyEntry(FrozenModel):
    """One policy of the deprecated form: `mask`, `allow` or `deny`."""

    mask: Mask | None = None
    """The same as an entry of `masking`."""
    allow: Rule | None = None
    """Who may read. It has no effect: topics have no such list. Use `access`, or the ACLs of your broker."""
    deny: Rule | None = None
    """Who may not read. See `allow`."""

    @model_validator(mode="after")
    def _check_one_policy(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("give exactly one of `mask`, `allow` and `deny`")
        return self


class Security(FrozenModel):
    """Classification and masking of a model's output."""

    classification: dict[str, Classification] = {}
    """The classification of columns."""
    masking: tuple[Mask, ...] = ()
    """The masks of columns."""
    policies: tuple[PolicyEntry, ...] = ()
    """The deprecated form of `masking`."""

    @property
    def masks(self) -> tuple[Mask, ...]:
        """Every mask, in either form."""
        return (*self.masking, *(entry.mask for entry in self.policies if entry.mask is not None))


Level = Literal["public", "protected", "private"]


class Access(FrozenModel):
    """Who may read a model."""

    level: Level = "protected"
    """`public`: everybody. `protected`: its own group, and those in `allowed_groups`. `private`: its own group in this
    project, and no exposure outside it."""
    allowed_groups: tuple[str, ...] = ()
    """Groups that may read a protected model; a reader's `group` or `owner` counts."""

    @model_validator(mode="before")
    @classmethod
    def _from_level(cls, value: Any) -> Any:
        return {"level": value} if isinstance(value, str) else value
