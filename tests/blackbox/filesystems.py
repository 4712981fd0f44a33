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
def mounted(kind, folder=None, fill=lambda lower: None):
    """Where it is mounted, somewhere below the folder. Only for root. `fill` puts files into the lower layer of an overlay."""
    if os.geteuid() != 0:
        raise Skip("only root can mount")
    base = tempfile.mkdtemp(prefix="bl-fs-", dir=folder)
    where = os.path.join(base, "m")
    try:
        for name in ("m", "l", "u", "w"):
            os.mkdir(os.path.join(base, name))
        os.chmod(base, 0o755)
        fill(os.path.join(base, "l"))
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
def copied_etc():
    """(the `through` of a Home whose /etc is a copy, a function that replaces a file there as editors do)."""
    if os.geteuid() != 0:
        raise Skip("requires root")
    with tempfile.TemporaryDirectory() as top:
        etc = shutil.copytree("/etc", os.path.join(top, "etc"), symlinks=True)

        def replace(name, text):
            new = os.path.join(etc, "bailiff-test.new")
            with open(new, "w") as f:
                f.write(text)
            os.rename(new, os.path.join(etc, name))
        yield ("unshare", "--mount", "sh", "-c", f'mount --bind {etc} /etc && exec "$@"', "sh"), replace


@contextlib.contextmanager
def replaced_resolver():
    """(as above, a function that replaces resolv.conf as network managers do). The name servers are 192.0.2.N."""
    with copied_etc() as (through, replace):
        def replace_resolver(number):
            replace("resolv.conf", f"nameserver 192.0.2.{number}\n")
        replace_resolver(1)
        yield through, replace_resolver


@contextlib.contextmanager
def drive():
    """(a folder, the `through` of a Home whose host has mounted something on `usb` in it, a function that unmounts it and removes `usb`)."""
    if os.geteuid() != 0:
        raise Skip("requires root")
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        usb = os.path.join(top, "usb")
        os.mkdir(usb)

        def unplug(home):
            subprocess.run(["nsenter", f"--mount=/proc/{home.guard.pid}/ns/mnt", "umount", usb], check=True)
            os.rmdir(usb)
        mount = f'mount -t tmpfs -o mode=755 bailiff-test {usb} && mkdir -p {usb}/secret {usb}/tree && echo 1 > {usb}/file && exec "$@"'
        yield top, ("unshare", "--mount", "sh", "-c", mount, "sh"), unplug
