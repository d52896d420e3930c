"""How hypothesis looks for mistakes. `HYPOTHESIS_PROFILE=deep` looks longer than there is time for in every run."""

import os

from hypothesis import HealthCheck, settings

COMMON = settings(
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("quick", COMMON, max_examples=3)
settings.register_profile("deep", COMMON, max_examples=60)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
