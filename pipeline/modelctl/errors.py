"""What can go wrong, worded once: every error says what happened and what to do next.

Exit codes follow the meaning, not the place: 1 a decision was negative, 2 the input is wrong, 3 no decision could be
reached, 130 interrupted. The command line turns any `ModelctlError` into one message; nothing else is caught.
"""

from __future__ import annotations


class ModelctlError(Exception):
    """Base of all expected errors: the work could not be done, and nothing was decided (exit code 3)."""

    exit_code = 3

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class InputError(ModelctlError):
    """The command, a file or a setting is wrong (exit code 2)."""

    exit_code = 2


class RefusedError(ModelctlError):
    """A decision was reached and it is no: tampered bytes, a report that does not admit (exit code 1)."""

    exit_code = 1


class CannotDecideError(ModelctlError):
    """A check could not reach a decision: a tool is missing, a service does not answer, a limit was hit."""


class DoesNotApplyError(ModelctlError):
    """A check has nothing to judge in this release; the policy decides whether that may pass as skipped."""
