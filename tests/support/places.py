"""Where things lie: the project, what tests bring along, and the real data beside the project."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
KETTLE = SUPPORT / "kettle"
SCHEMAS = ROOT / "docs" / "schemas"
SHARED = ROOT.parent / "shared" / "data"
DL19 = SHARED / "dl19"
