"""One run in a fresh virtual machine: a tar archive goes in, output comes while it runs, a tar archive of results comes out."""

import contextlib
import fcntl
import io
import os
import subprocess
import sys
import tarfile
import threading
import time

from images import GNU, QEMU, Problem, host_arch, run, say

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MEMORY = 2048   # MiB
OUT_MIB = 256
STOP = threading.Event()     # set by a signal: machines are ended
PROGRAMS = ["talker", "probe", "faults.so"]


@contextlib.contextmanager
def slot(cache, jobs):
    """At most `jobs` machines per cache, regardless of who starts them: one of that many locks is held."""
    files = [open(os.path.join(cache, f".machine-{i}.lock"), "a") for i in range(jobs)]
    try:
        told = False
        while True:
            for f in files:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield
                    return
            if not told:
                say(f"waiting: {jobs} machine(s) of this cache are running")
                told = True
            if STOP.wait(1):
                raise Problem("stopped while waiting for a machine")
    finally:
        for f in files:
            f.close()


def compile_tree(source, arch, images, full, jobs):
    """Builds the tree for an architecture; the folder with the programs. The host's own build is the tree's usual one."""
    here = arch == host_arch()
    name = "build" if here else f"build-{arch}"
    targets = ["all", *(f"{name}/{p}" for p in PROGRAMS), *(["unit-tests"] if full else [])]
    build = os.path.join(source, name)
    if here:
        run(["make", "-s", f"-j{jobs}", "-C", source, *targets])
        return build
    root, gnu = images.root(arch)[0], GNU[arch]
    lib = f"{root}/usr/lib/{gnu}"
    env = dict(os.environ, PKG_CONFIG_LIBDIR=f"{lib}/pkgconfig:{root}/usr/share/pkgconfig", PKG_CONFIG_SYSROOT_DIR=root)
    run(["make", "-s", f"-j{jobs}", "-C", source, f"BUILD={name}", f"CC={gnu}-gcc --sysroot={root}", f"AR={gnu}-ar",
         f"LDFLAGS=-Wl,-rpath-link,{lib} -Wl,--unresolved-symbols=ignore-in-shared-libs", *targets], env=env)
    return build


def pack(source, build, arch, out, scripts, words, full):
    """The archive that the guest unpacks to /opt: bailiff/ (the tree with its programs in build/), vm/ (scripts, vm/words)."""
    listed = run(["git", "-C", source, "ls-files", "-co", "--exclude-standard"]).split("\n")

    def owned(info):
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        return info

    strip = "strip" if arch == host_arch() else GNU[arch] + "-strip"
    with tarfile.open(out, "w") as tar:
        for path in filter(None, listed):
            if os.path.lexists(os.path.join(source, path)) and not path.startswith("tests/fuzz/corpus/"):
                tar.add(os.path.join(source, path), "bailiff/" + path, recursive=False, filter=owned)
        programs = [f for f in os.listdir(build) if os.path.isfile(os.path.join(build, f)) and os.access(os.path.join(build, f), os.X_OK)]
        if full:
            for folder, _, files in os.walk(os.path.join(build, "unit")):
                programs += [os.path.relpath(os.path.join(folder, f), build) for f in files if os.access(os.path.join(folder, f), os.X_OK)]
        for path in sorted(programs):
            stripped = out + ".strip"
            run([strip, "-o", stripped, os.path.join(build, path)])
            tar.add(stripped, "bailiff/build/" + path, filter=owned)
            os.unlink(stripped)
        for name, path in scripts.items():
            info = tar.gettarinfo(path, "vm/" + name)
            info.mode = 0o755
            with open(path, "rb") as f:
                tar.addfile(owned(info), f)
        for name, text in words.items():
            info = tarfile.TarInfo("vm/" + name)
            data = text.encode()
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))


def has_kvm():
    """On x86 the device can be opened, and a machine be made, on processors without virtualisation, where it then never runs."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    if host_arch() != "amd64":
        return True
    with open("/proc/cpuinfo") as f:
        return any({"vmx", "svm"} & set(line.split()) for line in f if line.startswith("flags"))


def command_line(arch, kernel, initramfs, disk, given, folder, append, memory=MEMORY):
    """The arguments of QEMU: hardware emulation where the guest's instructions are the host's and KVM works."""
    fast = arch == host_arch() and has_kvm()
    if arch == "arm64":
        machine = ["-M", "virt", "-cpu", "host" if fast else "cortex-a72"]
        console = "ttyAMA0"
    else:
        # Without the features that make the kernel and libc copy with rep movsb, which QEMU emulates byte by byte.
        machine = ["-M", "q35", "-cpu", "host" if fast else "max,-erms,-fsrm,-la57"]
        console = "ttyS0"
    # x86 promises an order of memory accesses that ARM does not have: its processors take turns there.
    threads = "single" if arch == "amd64" and host_arch() == "arm64" else "multi"
    machine += ["-accel", "kvm" if fast else f"tcg,thread={threads}"]
    if not fast:
        # Programs at random addresses would be translated again in each process; the kernel's own page tables would empty QEMU's TLB
        # twice in each system call.
        append += " norandmaps " + ("kpti=off" if arch == "arm64" else "clearcpuid=rep_good")

    def drive(name, path, options):
        return ["-drive", f"file={path},if=none,id={name},format=raw,{options}", "-device", f"virtio-blk-pci,drive={name},serial={name}"]

    return [QEMU[arch], *machine, "-m", str(memory), "-smp", "1", "-display", "none", "-no-reboot", "-nic", "none",
            "-kernel", os.path.join(kernel, "vmlinuz"), "-initrd", initramfs,
            "-append", f"console={console} rw quiet systemd.show_status=0 {append}".strip(),
            *drive("root", disk, "snapshot=on"), *drive("modules", os.path.join(kernel, "modules.img"), "readonly=on"),
            *drive("in", given, "readonly=on"), *drive("out", os.path.join(folder, "out.img"), "cache=unsafe"),
            "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
            "-chardev", f"file,id=output,path={folder}/output", "-device", "virtserialport,chardev=output,name=output",
            "-serial", f"file:{folder}/console"]


def boot(argv, folder, limit, show=False):
    """Runs the machine to its end; seconds, or raises Problem. `show`: its output appears here while it runs."""
    open(os.path.join(folder, "output"), "w").close()
    with open(os.path.join(folder, "out.img"), "w") as f:
        f.truncate(OUT_MIB << 20)
    start, shown, timed_out = time.monotonic(), 0, False
    with open(os.path.join(folder, "qemu"), "w") as log:
        # A session of its own: the scheduler groups by session, and niceness only counts within one.
        process = subprocess.Popen(["nice", "-n", "10", *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
                if show:
                    shown = show_from(os.path.join(folder, "output"), shown)
                if STOP.is_set():
                    break
                if time.monotonic() - start > limit:
                    timed_out = True
                    break
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if show:
        show_from(os.path.join(folder, "output"), shown)
    seconds = time.monotonic() - start
    results = os.path.join(folder, "out")
    os.makedirs(results, exist_ok=True)
    subprocess.run(["tar", "xf", os.path.join(folder, "out.img"), "-C", results], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    os.unlink(os.path.join(folder, "out.img"))
    if STOP.is_set():
        raise Problem("stopped")
    if timed_out:
        raise Problem(f"the machine was still running after {limit} s; {tail(folder)}")
    if process.returncode:
        raise Problem(f"QEMU ended with status {process.returncode}; {tail(folder)}")
    if not os.path.exists(os.path.join(results, "status")):
        raise Problem(f"the machine stopped without results; {tail(folder)}")
    return seconds


def show_from(path, position):
    with open(path, "rb") as f:
        f.seek(position)
        data = f.read()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
    return position + len(data)


def tail(folder):
    """The last lines of a machine that failed."""
    last = []
    for name in ("qemu", "console", "output"):
        with contextlib.suppress(OSError), open(os.path.join(folder, name), errors="replace") as f:
            last += [f"{name}: {line}" for line in f.read().splitlines()[-6:]]
    return "its last lines:\n" + "\n".join("    " + line for line in last) + f"\n    (logs: {folder})"
