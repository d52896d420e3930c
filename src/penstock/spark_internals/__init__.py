"""What Penstock uses of Spark beyond its public interface: py4j, Scala objects, private attributes of PySpark.

This package has to be adapted when Spark changes. No other room uses these parts, which
`tests/repo/test_spark_internals.py` enforces. Written for Spark 4.2.

| module | what it uses |
|---|---|
| `jvm` | the process of the JVM, the running `SparkContext`, the classes of both |
| `java_code` | compiled classes on the class path of the JVM, Janino |
| `expressions` | columns that only Java can create |
| `frames` | a DataFrame's plan, its schema as Spark writes it, its cached rows |
| `plan_metrics` | the counts of a plan's nodes |
| `running_query` | a streaming query: its end, its readers, its progress and that of its tasks |
| `hadoop_files` | files of any file system that Hadoop supports |
| `errors` | errors of py4j and their causes in Java |

Only `errors` loads pyspark when it is imported: `validate` must not.
"""
