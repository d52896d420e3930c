"""Types for the hints of functions that SQL calls: `def initials(name: STRING) -> STRING`.

A function gets one `pyarrow.Array` for each argument and returns one of the same length. `validate` reads the hints in
the source and runs nothing. Executors import this module with the functions, so it imports nothing itself.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing import TypeAlias

    import pyarrow as pa

    BIGINT: TypeAlias = pa.Array
    BINARY: TypeAlias = pa.Array
    BOOLEAN: TypeAlias = pa.Array
    DATE: TypeAlias = pa.Array
    DOUBLE: TypeAlias = pa.Array
    FLOAT: TypeAlias = pa.Array
    INT: TypeAlias = pa.Array
    SMALLINT: TypeAlias = pa.Array
    STRING: TypeAlias = pa.Array
    TIMESTAMP: TypeAlias = pa.Array
    TINYINT: TypeAlias = pa.Array
else:
    BIGINT: Final = "BIGINT"
    BINARY: Final = "BINARY"
    BOOLEAN: Final = "BOOLEAN"
    DATE: Final = "DATE"
    DOUBLE: Final = "DOUBLE"
    FLOAT: Final = "FLOAT"
    INT: Final = "INT"
    SMALLINT: Final = "SMALLINT"
    STRING: Final = "STRING"
    TIMESTAMP: Final = "TIMESTAMP"
    TINYINT: Final = "TINYINT"


def DECIMAL(precision: int, scale: int = 0) -> Any:  # noqa: N802 - the name of the SQL type
    return f"DECIMAL({precision}, {scale})"
