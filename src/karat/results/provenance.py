"""Where a saved result comes from: when it was saved, and the commit of the folder that it was saved in."""

from __future__ import annotations

import subprocess

from msgspec import UNSET

from karat import __version__
from karat.model.dates import utc_now
from karat.results.record import Provenance

PATIENCE = 5.0
"""Seconds after which git is not waited for."""


def find_provenance(label: str = "") -> Provenance:
    """The time (SOURCE_DATE_EPOCH where it is set, for equal bytes), and commit and branch where git knows them."""
    commit, branch = _checkout()
    return Provenance(utc_now(), __version__, commit or UNSET, branch or UNSET, label or UNSET)


def _checkout() -> tuple[str, str]:
    try:
        command = ["git", "rev-parse", "HEAD", "--abbrev-ref", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
        commit, branch = done.stdout.split()
    except (OSError, ValueError, subprocess.SubprocessError):
        return "", ""
    return commit, "" if branch == "HEAD" else branch  # detached
