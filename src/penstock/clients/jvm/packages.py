"""Packages that belong to Spark but do not come with PySpark."""

from importlib.metadata import version
from typing import Final

from penstock.clients.jvm.maven import Package


def _spark_package(artifact: str) -> Package:
    """Return a package of the installed Spark release. Some are not published for every release."""
    release = ".".join(version("pyspark").split(".")[:3])
    return Package("org.apache.spark", f"{artifact}_2.13", release, alone=True, or_older=True)


AVRO: Final = (_spark_package("spark-avro"),)
"""Packages to read and write Avro files."""
KAFKA: Final = (
    _spark_package("spark-sql-kafka-0-10"),
    _spark_package("spark-token-provider-kafka-0-10"),
    *AVRO,
    Package("org.apache.kafka", "kafka-clients", "3.9.2", alone=True),
    Package("org.apache.commons", "commons-pool2", "2.13.1", alone=True),
)
"""Packages to read and write Kafka, including Avro."""
POSTGRES: Final = (Package("org.postgresql", "postgresql", "42.7.11", alone=True),)
"""Packages to read PostgreSQL tables."""
