"""Functions of Flink SQL that the parser has no class for: which they are, and what they give."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sqlglot import exp

from penstock.sql.types import data_type

GROUP_WINDOWS: Final = frozenset({"TUMBLE", "HOP", "SESSION", "CUMULATE"})
MODEL_CALLS: Final = frozenset({"ML_PREDICT", "ML_EVALUATE"})
_RETURNS: Final[Mapping[str, str]] = {
    **{f"{w}_{part}": "TIMESTAMP" for w in GROUP_WINDOWS for part in ("START", "END", "ROWTIME", "PROCTIME")},
    **dict.fromkeys(("PROCTIME", "TO_TIMESTAMP_LTZ", "LOCALTIMESTAMP", "TIMESTAMPADD"), "TIMESTAMP"),
    **dict.fromkeys(("JSON_QUERY", "JSON_VALUE", "JSON_OBJECT", "JSON_ARRAY", "JSON_STRING", "LISTAGG"), "STRING"),
    **dict.fromkeys(("CONVERT_TZ", "DATE_FORMAT", "FROM_UNIXTIME", "SPLIT_INDEX", "TO_BASE64", "UUID"), "STRING"),
    **dict.fromkeys(("OVERLAY", "PARSE_URL", "PRINTF", "REGEXP_EXTRACT", "URL_DECODE", "URL_ENCODE"), "STRING"),
    **dict.fromkeys(("JSON_EXISTS", "IS_JSON", "REGEXP", "IS_ALPHA", "IS_DIGIT", "IS_DECIMAL"), "BOOLEAN"),
    **dict.fromkeys(("CHAR_LENGTH", "CHARACTER_LENGTH", "RAND_INTEGER", "CARDINALITY", "ARRAY_POSITION"), "INT"),
    **dict.fromkeys(("LOG2", "LOG10", "COT", "RAND", "PI", "E"), "DOUBLE"),
    **dict.fromkeys(("UNIX_TIMESTAMP", "TIMESTAMPDIFF", "CURRENT_WATERMARK"), "BIGINT"),
    "STR_TO_MAP": "MAP<STRING, STRING>",
    "FROM_BASE64": "BINARY",
}


def group_windows(nodes: Iterable[exp.Expr]) -> Iterator[exp.Anonymous]:
    """The nodes that are calls of TUMBLE, HOP, SESSION or CUMULATE."""
    return (n for n in nodes if isinstance(n, exp.Anonymous) and n.name.upper() in GROUP_WINDOWS)


def tell_types(tree: exp.Expr, answers: Mapping[str, str]) -> None:
    """Write the type of every such function into the tree, as a cast. `answers` are those of `ML_PREDICT`, by model."""
    for node in list(tree.find_all(exp.Anonymous)):
        kind = _RETURNS.get(node.name.upper())
        if node.name.upper() in MODEL_CALLS and node.expressions:
            kind = answers.get(node.expressions[0].name)
        if kind is not None:
            node.replace(exp.Cast(this=node.copy(), to=data_type(kind).copy()))
