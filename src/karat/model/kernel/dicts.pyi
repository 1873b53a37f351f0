from typing import Any

import numpy as np
from numpy.typing import NDArray

def align(
    lists: Any,
    query_ids: Any,
    docs: Any,
    offsets: NDArray[np.int64],
    narrow: bool,
    returned: NDArray[np.int64],
    gold: NDArray[np.int64],
    rank: NDArray[np.int64],
) -> tuple[int, int] | None: ...
def check_ids(lists: Any, mark: str, most: int) -> bool | None: ...
def read_gold(data: Any) -> tuple[list[str], list[str], bytearray, bytearray] | None: ...
