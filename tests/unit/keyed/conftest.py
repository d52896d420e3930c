"""How hypothesis looks for mistakes. `--hypothesis-profile=deep` looks longer than there is time for in every run."""

from hypothesis import HealthCheck, settings

COMMON = settings(
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("quick", COMMON, max_examples=4)
settings.register_profile("deep", COMMON, max_examples=300)
settings.load_profile("quick")
