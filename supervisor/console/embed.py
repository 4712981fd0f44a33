#!/usr/bin/python3
"""embed.py FOLDER OUT: the console's files as rows of a C table (supervisor/gateway/http/console_files.c), gzipped, the same for the same input.

index.html stays uncompressed, because each response gets its own nonce.
"""

import os
import sys
import zlib

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


def gzipped(data):
    """Without a name and a time."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = bytearray(packer.compress(data) + packer.flush())
    packed[9] = 255     # the operating system is unknown
    return bytes(packed)


def served(folder):
    """(name, bytes as sent), in order."""
    found = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(d for d in folders if d != "node_modules")
        for name in sorted(names):
            if os.path.splitext(name)[1] in TYPES:
                path = os.path.join(top, name)
                with open(path, "rb") as f:
                    data = f.read()
                name = os.path.relpath(path, folder)
                found.append((name, data if name == "index.html" else gzipped(data)))
    return found


def main():
    folder, out = sys.argv[1:]
    with open(out, "w") as f:
        for name, data in served(folder):
            f.write(f'FILE("{name}", "{TYPES[os.path.splitext(name)[1]]}", {len(data)},\n')
            for at in range(0, len(data), 32):
                f.write('"' + "".join(f"\\{b:03o}" for b in data[at:at + 32]) + '"\n')
            f.write(")\n")


if __name__ == "__main__":
    main()
