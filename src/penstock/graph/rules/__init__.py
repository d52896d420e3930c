"""Governance rules: one module per group. A rule yields its violations."""

from collections.abc import Iterator
from datetime import date

from penstock.errors import Diagnostic
from penstock.graph.rules.exposures import exposure_rules
from penstock.graph.rules.models import model_rules
from penstock.graph.rules.security import security_rules
from penstock.graph.rules.sources import source_rules
from penstock.graph.rules.tests import test_rules
from penstock.graph.rules.topics import topic_rules
from penstock.graph.rules.violation import RuleContext, Violation
from penstock.graph.rules.waivers import apply_waivers

RULES = (topic_rules, model_rules, source_rules, exposure_rules, test_rules, security_rules)


def check_rules(ruled: RuleContext, today: date) -> Iterator[Diagnostic]:
    """Report violations without a waiver, and waivers without effect."""
    violations: list[Violation] = [violation for rule in RULES for violation in rule(ruled)]
    yield from apply_waivers(violations, ruled, today)
