"""Jupyter's own conformance suite on the R kernel, every part of it."""

import jupyter_kernel_test
import pytest


@pytest.mark.usefixtures("kernelspec")
class TestConformance(jupyter_kernel_test.KernelTests):
    kernel_name = "hdpstats-r"
    language_name = "R"
    file_extension = ".r"
    code_hello_world = 'cat("hello, world\\n")'
    code_stderr = 'message("to standard error")'
    completion_samples = (
        {"text": "seq_al", "matches": ["seq_along"]},
        {"text": "dp_fit", "matches": ["dp_fit_public"]},
        {"text": "stats::fivenu", "matches": ["stats::fivenum"]},
    )
    complete_code_samples = ("1", "print('hello, world')", "f <- function(x) {\n  x * 2\n}", "{\n1\n}\n", "")
    incomplete_code_samples = ("print('hello", "f <- function(x) {\n  x * 2", "1 +", "x <- r'(raw")
    invalid_code_samples = ("import = 7q", "x <- )", "1 2")
    code_page_something = "?mean"
    code_generate_error = 'stop("on purpose")'
    code_execute_result = (
        {"code": "6 * 7", "result": "[1] 42"},
        {"code": "'text'", "result": '[1] "text"'},
        {"code": "data.frame(x = 1)", "mime": "text/html"},
    )
    code_display_data = (
        {"code": "plot(1:3)", "mime": "image/png"},
        {"code": "plot(1:3)", "mime": "image/svg+xml"},
        {"code": "data.frame(x = 1); 2", "mime": "text/html"},
    )
    code_history_pattern = "6 [*]*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "dp_logit"
    code_clear_output = 'cat("\\f")'
