"""Every code that a diagnostic or an error can carry, with what it means and the way out.

`docs/reference/diagnostics.md` is made from this table, and a diagnostic with a code that is not here cannot be built.
"""

from collections.abc import Mapping
from typing import Final

CODES: Final[Mapping[str, str]] = {
    # Files and YAML
    "project-not-found": "The path holds neither a `stream_project.yml` nor a pipeline file. Name the directory or the file.",
    "file-unreadable": "A file exists but cannot be read as UTF-8 text. Check its permissions and its encoding.",
    "file-empty": "A file has no content. Write the document or remove the file.",
    "yaml-syntax": "The file is not YAML. The position is where reading stopped; the mistake is there or just before.",
    "yaml-duplicate-key": "A mapping has the same key twice. YAML would keep one of them in silence, so both are refused.",
    "yaml-boolean-key": "YAML reads `on`, `off`, `yes`, `no`, `true` and `false` as truth values, so this is not the key it seems. Quote it.",
    "yaml-key-not-text": "A key is a number, a date, null or a collection. Quote it if it is meant as text.",
    "yaml-alias": "The document refers to itself, or its aliases expand to more than a million values.",
    # Shape of the documents
    "wrong-shape": "A section is not of the form it must have: a list where a mapping is needed, or the reverse.",
    "unknown-field": "A key that this element does not have. Nothing is dropped in silence, so it is refused.",
    "missing-field": "A key that this element needs.",
    "wrong-type": "A value of another type than the field takes.",
    "unknown-value": "A word outside the list that the field accepts.",
    "invalid-value": "A value of the right type that cannot be used.",
    "given-twice": "The same thing is said in two places. Keep one of them.",
    "deprecated-form": "An older form, still understood. The hint shows the new one.",
    "no-effect": "A field that is understood but changes nothing here. The message says why.",
    "unset-variable": "`${NAME}` names an environment variable that is not set. Set it, put it into `.env`, or give a default: `${NAME:-default}`.",
    "secret-exposed": "A variable that looks like a secret stands where it would be written into the manifest. Connectors, `runtime` and masks take it only when a query runs.",
    "environment-unknown": "An environment was chosen that the project does not have.",
    "environment-needed": "The project has several environments, and none was chosen. Use `--env NAME` or `PENSTOCK_ENV`.",
    "unknown-type": "A `type:` that no connector or transform answers to.",
    # Names and the graph
    "duplicate-name": "Two elements share a name. Within a project each kind has its own names; in a pipeline all nodes share one list.",
    "unknown-source": "`source()` names a source that is not declared.",
    "unknown-model": "`ref()`, `from`, a test or an exposure names a model that is not declared.",
    "unknown-upstream": "A transform or a sink of a pipeline reads from a node that is not declared.",
    "unknown-node": "A command names a node that the project does not have.",
    "no-consumer": "A source or transform of a pipeline feeds nothing. Connect it or remove it.",
    "cycle": "Models read from each other in a circle, so there is no first one to run.",
    # SQL and templates
    "template-syntax": "The template in a model's SQL, or a macro, cannot be rendered.",
    "template-refused": "A template asks for more than it may have: a file, an endless loop, a text without bounds.",
    "unknown-var": "`var()` names a variable that nobody has given a value. Add it to `vars:`, or give it with `--var`.",
    "sql-syntax": "The SQL cannot be parsed.",
    "sql-statement": "A model or transform is one SELECT statement that reads from a source or a model.",
    "sql-unknown-table": "The SQL of a model names a table directly. Use `source()` or `ref()`.",
    "sql-unknown-column": "The SQL names a column that its inputs do not have.",
    "sql-duplicate-column": "Two outputs of a query have the same name. Rename one with AS.",
    "sql-unknown-function": "The SQL calls a function that neither Flink nor Spark has. The hint names the nearest one.",
    "sql-argument": "A function is given too many arguments, too few, or one of a type that it cannot take.",
    "sql-nondeterministic-key": "Rows are grouped, partitioned or joined by a value that is another one each time: RAND, UUID, the current time. Compute it once, in a column.",
    "sql-unsupported": "The SQL uses a construct that cannot run as a stream here. The message names the way out.",
    "unknown-column-type": "A column's `type` is not an SQL type.",
    "primary-key-missing": "The primary key names a column that the node does not put out.",
    "contract-broken": "The `columns` of a model, or a schema test, promise what its SQL does not put out.",
    "mask-column-missing": "A mask names a column that is neither an output of the model nor a column of its inputs, or the columns are not known, so that nothing can be promised.",
    "mask-incomplete": "An output is made from a column that is masked in another output, and is not masked itself.",
    "event-time-assumed": "A window is over a column that nobody declared as event time. It is taken as such, with 5 seconds for late rows.",
    "event-time-missing": "`event_time.column` names a column that the source, or the model, does not have.",
    "window-without-event-time": "A time window needs a stream with event time. Declare `event_time` on the source.",
    "gateway-absent": "`virtual_topic` without a gateway becomes a view inside the queries that read it; other consumers cannot see it.",
    # Governance
    "access-denied": "A model is read by somebody whom its `access` does not allow.",
    "rule-broken": "An element breaks one of the project's `rules`. A waiver with a reason and a date can allow it.",
    "rule-waived": "An element breaks a rule, and has leave to do so until the day that its waiver names.",
    "waiver-expired": "The day until which a waiver held has passed.",
    "waiver-unused": "A waiver allows what does not happen. Take it out.",
    # Plan and run
    "confirmation-needed": "The environment is protected: what changes it must be confirmed, by typing its name or with `--confirm`.",
    "destructive-refused": "The environment forbids to rebuild or retire queries. `--force` allows it once.",
    "not-runnable-here": "The project names a system that this installation cannot run on. The message says what can be done instead.",
    "rebuild-refused": "The change does not fit the query's checkpoint. Allow it by name with `--allow-rebuild NAME`.",
    "already-running": "Another process runs this project. Stop it first, with `penstock stop`.",
    "schema-unknown": "The columns of a source are neither declared nor found in its files, or the schema registry does not have them.",
    "not-writable": "A directory or file that must be written cannot be.",
    "target-exists": "`init` and `docs generate` do not overwrite what they did not write: the directory has content already.",
    # Services
    "java-missing": "Spark needs Java 17 or newer, and none was found.",
    "java-too-old": "Spark needs Java 17 or newer; the one found is older.",
    "package-missing": "A connector needs a Python package that is not installed. The hint has the command.",
    "spark-start": "Spark could not start. Its log has the reason.",
    "spark-lost": "The JVM of Spark ended while queries ran: it was killed, or ran out of memory. Its log may say why.",
    "unreachable": "A system that the project names does not answer.",
    "state-unreadable": "The state file `.penstock/state.db` cannot be read. It may be damaged or locked.",
    # Queries
    "query-failed": "A streaming query stopped with an error. The message names the query and the cause.",
    "batch-conflict": "A batch with this number was written before from other input: the checkpoint was restored from an older copy. Rebuild the query or restore the output too.",
}  # fmt: skip
