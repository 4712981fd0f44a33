"""File systems that are mounted for a test. overlay and ramfs have no idmapped mounts on any kernel."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from harness import Skip

MADE_BY = {"ext4": ["mkfs.ext4", "-q"], "xfs": ["mkfs.xfs", "-q"], "btrfs": ["mkfs.btrfs", "-q"]}
IMAGE_BYTES = 320 << 20  # sparse; xfs takes no less than 300 MiB


def _mount_options(kind, base):
    if kind == "overlay":
        return ["-o", f"lowerdir={base}/l,upperdir={base}/u,workdir={base}/w", "bailiff-test"]
    if kind not in MADE_BY:
        return ["bailiff-test"]
    image = os.path.join(base, "image")
    with open(image, "wb") as f:
        f.truncate(IMAGE_BYTES)
    program = shutil.which(MADE_BY[kind][0], path="/usr/sbin:/sbin:/usr/bin")
    if not program or subprocess.run([program, *MADE_BY[kind][1:], image], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        raise Skip(f"{MADE_BY[kind][0]} is missing or fails")
    return ["-o", "loop", image]


@contextlib.contextmanager
def mounted(kind, folder=None):
    """Where it is mounted, somewhere below the folder. Only for root."""
    if os.geteuid() != 0:
        raise Skip("only root can mount")
    base = tempfile.mkdtemp(prefix="bl-fs-", dir=folder)
    where = os.path.join(base, "m")
    try:
        for name in ("m", "l", "u", "w"):
            os.mkdir(os.path.join(base, name))
        os.chmod(base, 0o755)
        done = subprocess.run(["mount", "-t", kind, *_mount_options(kind, base), where], stderr=subprocess.PIPE)
        if done.returncode:
            raise Skip(f"no {kind} can be mounted here: {done.stderr.decode().strip()[:80]}")
        try:
            os.chmod(where, 0o755)
            yield where
        finally:
            subprocess.run(["umount", "-l", where], check=True)
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextlib.contextmanager
def replaced_resolver():
    """(the `through` of a Home whose /etc is a copy, a function that replaces resolv.conf there as network managers do). The name servers are 192.0.2.N."""
    if os.geteuid() != 0:
        raise Skip("requires root")
    with tempfile.TemporaryDirectory() as top:
        etc = shutil.copytree("/etc", os.path.join(top, "etc"), symlinks=True)

        def replace(number):
            new = os.path.join(etc, "resolv.conf.new")
            with open(new, "w") as f:
                f.write(f"nameserver 192.0.2.{number}\n")
            os.rename(new, os.path.join(etc, "resolv.conf"))
        replace(1)
        yield ("unshare", "--mount", "sh", "-c", f'mount --bind {etc} /etc && exec "$@"', "sh"), replace
