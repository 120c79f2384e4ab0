"""Jupyter's own conformance suite on the R kernel, every part of it, with waits that no load makes too short."""

from unittest import mock

import jupyter_kernel_test
import pytest
from jupyter_kernel_test.msgspec_v5 import validate_message

from tests.jupyter.session import kernel
from tests.waiting import GENEROUS


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

    @classmethod
    def setUpClass(cls):
        cls.km, cls.kc = cls.enterClassContext(kernel(cls.kernel_name))
        cls.enterClassContext(mock.patch.object(jupyter_kernel_test, "TIMEOUT", GENEROUS))
        cls.kc.execute_interactive("", silent=True, timeout=GENEROUS)  # read what waiting for the kernel left unread

    def get_non_kernel_info_reply(self, timeout=None):
        return super().get_non_kernel_info_reply(timeout=GENEROUS)

    def execute_helper(self, code, timeout=GENEROUS, silent=False, store_history=True, stop_on_error=True):
        """Return the reply and the outputs of a cell, as the suite does."""
        asked = self.kc.execute(code=code, silent=silent, store_history=store_history, stop_on_error=stop_on_error)
        reply = self.get_non_kernel_info_reply()
        validate_message(reply, "execute_reply", asked)
        found = []
        while not found or found[-1]["content"].get("execution_state") != "idle":
            message = self.kc.get_iopub_msg(timeout=GENEROUS)
            if message["parent_header"].get("msg_id") == asked:  # not the end of what was asked before
                validate_message(message, message["msg_type"], asked)
                found.append(message)
        assert found[0]["content"] == {"execution_state": "busy"}
        inputs = [each["content"]["code"] for each in found if each["msg_type"] == "execute_input"]
        assert inputs == [code] * (not silent)
        return reply, [each for each in found if each["msg_type"] not in ("status", "execute_input")]
