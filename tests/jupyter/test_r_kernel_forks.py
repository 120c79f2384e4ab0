"""``parallel::mclapply`` in a notebook: forked processes of R print, and use Python."""

FIT = """
study <- dp_study(
  private = dp_load_rotterdam(), public = dp_load_gbsg(), budget = dp_budget(epsilon = 1),
  schema = dp_schema(age = dp_continuous(20, 90), event3 = dp_binary())
)
fit <- dp_logit(event3 ~ age, study, 1)
"""
FORKS = """
cat("begin\\n")
found <- parallel::mclapply(1:4, function(i) { cat("here\\n"); confint(fit, level = 0.5 + i / 10) }, mc.cores = 2)
all(vapply(found, is.matrix, NA))
"""


def test_forked_processes_print_and_use_python(notebook):
    """That they do not wait for another thread of the kernel is judged in ``tests/r/test_forks_in_every_host.py``."""
    notebook.run(FIT)
    for _ in range(3):
        assert notebook.run(FORKS, timeout=240).shown == [{"text/plain": "[1] TRUE"}]
    assert notebook.run("dp_ledger(study)$spent[['epsilon']]").shown == [{"text/plain": "[1] 1"}]
