"""A model between reading and linking."""

from dataclasses import dataclass

from penstock.errors import Origin
from penstock.project import stream_project as written
from penstock.project.templates.template import RenderedSql
from penstock.project.validation.declaration import Declaration


@dataclass(frozen=True, slots=True)
class RenderedModel:
    """A model whose template was rendered: what it refers to, and its SQL if there is any to go on with."""

    declared: Declaration[written.Model]
    inputs: tuple[str, ...]
    rendered: RenderedSql | None = None

    @property
    def sql(self) -> str | None:
        return self.rendered.sql if self.rendered is not None and not self.rendered.problems else None

    def origin_at(self, offset: int) -> Origin:
        """Where a place of the rendered SQL was written."""
        assert self.rendered is not None
        return self.declared.origin_inside("sql", self.rendered.written(offset))
