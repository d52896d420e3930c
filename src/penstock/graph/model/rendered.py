"""A model between parsing and linking."""

from dataclasses import dataclass

from penstock.errors import Origin
from penstock.project import stream_project as written
from penstock.project.templates.template import RenderedSql
from penstock.project.validation.declaration import Declaration


@dataclass(frozen=True, slots=True)
class RenderedModel:
    """A model with its rendered template: its references, and its SQL if it could be parsed."""

    declared: Declaration[written.Model]
    inputs: tuple[str, ...]
    rendered: RenderedSql | None = None

    @property
    def sql(self) -> str | None:
        return self.rendered.sql if self.rendered is not None and not self.rendered.problems else None

    def origin_at(self, offset: int) -> Origin:
        """The position in the file of an offset in the rendered SQL."""
        assert self.rendered is not None
        return self.declared.origin_inside("sql", self.rendered.written(offset))
