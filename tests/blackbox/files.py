"""Files of the tests."""

import os


def put(path, text="", mode=None):
    """Writes a file, in folders that are created."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    if mode is not None:
        os.chmod(path, mode)


def get(path):
    with open(path) as f:
        return f.read()
