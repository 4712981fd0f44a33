"""What a virtual machine boots from, created once and kept in the cache folder.

    root/ARCH/          a root filesystem as a folder: debootstrap for the host's architecture; for the other one the same
                        packages, unpacked with dpkg-deb, with the configuration of the first (none of its programs runs)
    root/ARCH-TAG.img   the same as an ext4 image (mke2fs -d, nothing is mounted)
    kernel/V-ARCH/      a stock Debian kernel: vmlinuz, modules.img and an initramfs that finds the disks by their serials
    apt/                private states of apt, so that signatures, proxies and mirrors are those the machine is configured with

The other architecture's root is also the sysroot of the cross compiler. Every part is made in a temporary name and
renamed when complete. No address is known here: sources come from the apt configuration of the machine.
"""

import contextlib
import fcntl
import functools
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys

ARCHES = ("arm64", "amd64")
GNU = {"arm64": "aarch64-linux-gnu", "amd64": "x86_64-linux-gnu"}
QEMU = {"arm64": "qemu-system-aarch64", "amd64": "qemu-system-x86_64"}
# Tools of the host: program and the Debian package that has it.
TOOLS = [("debootstrap", "debootstrap"), ("mke2fs", "e2fsprogs"), ("cpio", "cpio"), ("depmod", "kmod"), ("xz", "xz-utils"),
         ("zstd", "zstd"), ("dpkg-deb", "dpkg"), ("git", "git"), ("make", "make")]
# Packages of the guests: a Debian system as users have it, what bailiff is built and tested with, and file systems.
SYSTEM = """systemd systemd-sysv libpam-systemd dbus dbus-user-session kmod udev procps psmisc util-linux util-linux-extra iproute2
    ca-certificates sudo login passwd libpam-modules uidmap libcap2-bin e2fsprogs btrfs-progs xfsprogs apparmor auditd lsof
    podman crun netavark slirp4netns fuse-overlayfs iptables""".split()
BUILD = """python3 gcc libc6-dev make pkg-config libevent-dev libjansson-dev liblmdb-dev libseccomp-dev libcap-dev libmd-dev libxxhash-dev
    libvterm-dev libcurl4-openssl-dev libssl-dev libnats-dev""".split()
TEST = "git curl wget openssl check bubblewrap python3-jsonschema strace vim-tiny nano less tmux jq nats-server libtsm-dev".split()
# Suites that may have a kernel, in addition to those configured; "-security" ones are searched next to the configured one.
KERNEL_SUITES = ["{codename}-backports", "bullseye", "bullseye-security", "trixie-backports"]
MODULES = "virtio_pci virtio_blk virtio_console virtio_rng ext4 crc32c_generic crc32c-intel crc32c_arm64 overlay".split()
# Units that only cost time in a machine that lives for minutes.
MASKED = """apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer dpkg-db-backup.timer
    man-db.timer logrotate.timer systemd-timesyncd.service systemd-networkd-wait-online.service systemd-hwdb-update.service
    ldconfig.service systemd-update-done.service systemd-journal-catalog-update.service systemd-sysusers.service
    systemd-firstboot.service systemd-random-seed.service systemd-pcrphase.service systemd-pstore.service systemd-binfmt.service
    systemd-remount-fs.service systemd-update-utmp.service systemd-update-utmp-runlevel.service getty@tty1.service
    serial-getty@ttyAMA0.service serial-getty@ttyS0.service modprobe@drm.service modprobe@efi_pstore.service modprobe@configfs.service
    modprobe@dm_mod.service modprobe@loop.service sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount
    dev-hugepages.mount dev-mqueue.mount systemd-udev-trigger.service systemd-journal-flush.service
    podman.service podman.socket podman-auto-update.service podman-auto-update.timer podman-restart.service auditd.service""".split()
# Not started at boot (compiling its profiles takes half a minute under emulation); a check that needs it starts it.
DISABLED = "etc/systemd/system/sysinit.target.wants/apparmor.service"


class Problem(Exception):
    """A problem that the user can fix; printed without a traceback."""


def short_hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def say(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def run(argv, **more):
    """Runs a command quietly; its output is the explanation when it fails."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise Problem(f"{' '.join(argv[:6])} … failed with status {done.returncode}\n{tail}")
    return done.stdout


def host_arch():
    machine = os.uname().machine
    for arch, gnu in GNU.items():
        if gnu.startswith(machine + "-"):
            return arch
    raise Problem(f"the host is {machine}; guests are built on {' and '.join(ARCHES)} only")


def require_tools(arches):
    """Installs missing tools through apt when root; otherwise prints the apt line."""
    wanted = list(TOOLS)
    for arch in arches:
        wanted.append((QEMU[arch], "qemu-system-arm" if arch == "arm64" else "qemu-system-x86"))
        if arch != host_arch():
            gnu = GNU[arch]
            wanted += [(gnu + "-gcc", "gcc-" + gnu.replace("_", "-")), (f"/usr/{gnu}/include/stdlib.h", f"libc6-dev-{arch}-cross")]
    missing = sorted({package for program, package in wanted if not (os.path.exists(program) if program[0] == "/" else shutil.which(program))})
    if not missing:
        return
    line = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        raise Problem(f"programs are missing; as root: {' '.join(line)}")
    say(" ".join(line))
    run(line, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))


def codename():
    with open("/etc/os-release") as f:
        values = dict(line.rstrip().split("=", 1) for line in f if "=" in line)
    if values.get("ID", "").strip('"') != "debian":
        raise Problem("root filesystems are made of the packages of the host's release, and this host is not Debian")
    return values["VERSION_CODENAME"].strip('"')


def parse_sources(text, deb822):
    """The archives of a sources file: (address, [suite], options of the one-line format)."""
    found = []
    if deb822:
        for block in re.split(r"\n\s*\n", text):
            lines = [line for line in block.splitlines() if not line.startswith("#")]
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t]+.*)*)", "\n".join(lines), re.M))
            if "deb" not in fields.get("Types", "").split() or fields.get("Enabled", "yes").strip().lower() == "no":
                continue
            key = fields.get("Signed-By", "").split()
            option = f"signed-by={key[0]}" if len(key) == 1 and key[0].startswith("/") else ""
            found += [(uri, fields.get("Suites", "").split(), option) for uri in fields.get("URIs", "").split()]
        return found
    for line in text.splitlines():
        m = re.match(r"deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s", line.strip() + " ")
        if m:
            found.append((m.group(2), [m.group(3)], (m.group(1) or "").strip()))
    return found


def configured_sources():
    """The archives that apt is configured with on this machine."""
    files = ["/etc/apt/sources.list"]
    with contextlib.suppress(FileNotFoundError):
        files += sorted(os.path.join("/etc/apt/sources.list.d", f) for f in os.listdir("/etc/apt/sources.list.d"))
    found = []
    for path in files:
        if os.path.exists(path) and path.endswith((".list", ".sources")):
            with open(path) as f:
                found += parse_sources(f.read(), path.endswith(".sources"))
    return found


def version_key(version):
    return [int(n) for n in re.findall(r"\d+", version)]


def stock_kernels(names, version, arch):
    """Of package names, the stock kernels of a version ("6.1", "6.12"), newest first; signed ones are preferred."""
    pattern = re.compile(r"linux-image-" + re.escape(version) + r"[.][0-9][^ ]*?-" + arch + r"(-unsigned)?")
    fits = [n for n in names if pattern.fullmatch(n) and not re.search(r"-(cloud|rt)-|-dbg", n)]
    return sorted(fits, key=lambda n: (version_key(n), not n.endswith("-unsigned")), reverse=True)


class Images:
    def __init__(self, cache):
        self.cache = os.path.abspath(cache)
        os.makedirs(self.cache, exist_ok=True)

    def path(self, *parts):
        return os.path.join(self.cache, *parts)

    @contextlib.contextmanager
    def locked(self, name):
        """One maker at a time, also between several runs of this program."""
        with open(self.path(f".{name}.lock"), "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield

    # ---- apt ----

    def apt(self, arch, kernels=False):
        """Options for apt with a state of its own: the configured suites, or those that may have kernels."""
        main = next(((u, o) for u, suites, o in configured_sources() if codename() in suites), None)
        if not main:
            raise Problem(f"apt has no source for {codename()} on this machine")
        security = next(((u, o) for u, suites, o in configured_sources() if codename() + "-security" in suites), None)
        lines = []
        for suite in [codename(), codename() + "-security"] + ([s.format(codename=codename()) for s in KERNEL_SUITES] if kernels else []):
            source = security if suite.endswith("-security") else main
            if source:
                option = f"[{source[1]}] " if source[1] else ""
                lines.append(f"deb {option}{source[0]} {suite} main")
        top = self.path("apt", f"{'kernels' if kernels else 'system'}-{arch}")
        for sub in ("lists/partial", "archives/partial", "state"):
            os.makedirs(os.path.join(top, sub), exist_ok=True)
        text = "\n".join(lines) + "\n"
        listing, status = os.path.join(top, "sources.list"), os.path.join(top, "status")
        if not os.path.exists(status):
            open(status, "w").close()
        options = [f"-oDir::Etc::SourceList={listing}", "-oDir::Etc::SourceParts=/dev/null", f"-oDir::State={top}/state",
                   f"-oDir::State::Lists={top}/lists", f"-oDir::State::Status={status}", f"-oDir::Cache={top}",
                   f"-oDir::Cache::Archives={top}/archives", f"-oAPT::Architecture={arch}", f"-oAPT::Architectures={arch}",
                   "-oAPT::Sandbox::User=root", "-oAPT::Get::Install-Recommends=false", "-oDebug::NoLocking=true"]
        if not os.path.exists(listing) or open(listing).read() != text:
            with open(listing, "w") as f:
                f.write(text)
            # A suite that the mirror no longer has is an error of apt's; the others are there all the same.
            subprocess.run(["apt-get", *options, "-qq", "update"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
        return top, options

    # ---- root filesystems ----

    def root(self, arch):
        """The folder and the ext4 image of an architecture's root filesystem. Other packages make another folder."""
        folder = self.path("root", f"{arch}-{short_hash(' '.join(SYSTEM + BUILD + TEST))}")
        with self.locked("root-" + arch):
            if not os.path.exists(folder):
                if os.geteuid() != 0:
                    raise Problem(f"making {folder} requires root (owners and device files); run this once as root")
                os.makedirs(self.path("root"), exist_ok=True)
                (self.bootstrap if arch == host_arch() else self.unpack)(arch, folder + ".new")
                os.rename(folder + ".new", folder)
            # Another image when what configure() writes has changed.
            made_from = inspect.getsource(configure) + guest_file("start") + guest_file("vm-start.service") + " ".join(MASKED + [DISABLED])
            image = f"{folder}-{short_hash(made_from)}.img"
            if not os.path.exists(image):
                if os.geteuid() != 0:
                    raise Problem(f"making {image} requires root; run this once as root")
                say(f"writing the disk of {arch}")
                configure(folder)
                self.ext4(folder, image, "8G")
        return folder, image

    def ext4(self, folder, image, size):
        new = image + ".new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        with open(new, "w") as f:
            f.truncate(int(size[:-1]) << (30 if size[-1] == "G" else 20))
        # Features that the oldest kernel does not know must not be on.
        run(["mke2fs", "-q", "-t", "ext4", "-F", "-O", "^metadata_csum_seed,^orphan_file", "-m", "0", "-d", folder, new])
        os.rename(new, image)

    def bootstrap(self, arch, folder):
        say(f"debootstrap of {codename()} {arch} (some minutes)")
        shutil.rmtree(folder, ignore_errors=True)
        uri = next(u for u, suites, _ in configured_sources() if codename() in suites)
        run(["debootstrap", f"--arch={arch}", "--variant=minbase", "--include=" + ",".join(SYSTEM + BUILD + TEST), codename(), folder, uri])

    def unpack(self, arch, folder):
        """The packages of the native root for another architecture: unpacked, and configured as the native one is."""
        native, _ = self.root(host_arch())
        say(f"unpacking the packages of {arch}")
        shutil.rmtree(folder, ignore_errors=True)
        listing = run(["dpkg-query", f"--admindir={native}/var/lib/dpkg", "-W", "-f", "${Package} ${db:Status-Status} ${Architecture}\n"])
        names = [line.split()[0] for line in listing.splitlines() if line.split()[1:2] == ["installed"]]
        names = [self.foreign_name(n, arch) for n in names]
        top, options = self.apt(arch)
        known = set(run(["apt-cache", *options, "pkgnames"]).split())
        names = sorted(n for n in names if n in known)
        archives = os.path.join(top, "archives")
        os.makedirs(archives, exist_ok=True)
        run(["apt-get", *options, "-y", "-qq", "--download-only", "install", *names])
        # Merged /usr first, so that what a package has in /lib lands in /usr/lib.
        for name in ("bin", "sbin", "lib", "lib64"):
            os.makedirs(os.path.join(folder, "usr", name), exist_ok=True)
            os.symlink("usr/" + name, os.path.join(folder, name))
        for name in ("run", "var"):
            os.makedirs(os.path.join(folder, name))
        os.symlink("../run", os.path.join(folder, "var", "run")) # likewise for /var/run, which the scripts of a package link
        for deb in sorted(f for f in os.listdir(archives) if f.endswith(".deb")):
            run(["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" | tar x -C "$2" --keep-directory-symlink', "_", os.path.join(archives, deb), folder])
        self.borrow(native, folder)
        for sub in ("usr/lib64", f"usr/lib/{GNU[arch]}"):
            relative_links(folder, sub)

    def foreign_name(self, name, arch):
        """Few packages have the architecture in their names."""
        here, there = GNU[host_arch()].replace("_", "-"), GNU[arch].replace("_", "-")
        return name.replace(here, there)

    def borrow(self, native, folder):
        """What installation scripts would have created: accounts, configuration, alternatives; none of it depends on the architecture."""
        shutil.rmtree(os.path.join(folder, "etc"), ignore_errors=True)
        run(["cp", "-a", os.path.join(native, "etc"), os.path.join(folder, "etc")])
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, "etc", "ld.so.cache"))
        run(["cp", "-an", os.path.join(native, "var", "."), os.path.join(folder, "var")])
        for name in ("proc", "sys", "dev", "run", "tmp", "root", "home", "mnt", "srv", "opt"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        os.chmod(os.path.join(folder, "tmp"), 0o1777)
        for sub in ("usr/bin", "usr/sbin"):
            for name in os.listdir(os.path.join(native, sub)):
                link, target = os.path.join(native, sub, name), os.path.join(folder, sub, name)
                if os.path.islink(link) and os.readlink(link).startswith("/etc/alternatives/") and not os.path.lexists(target):
                    os.symlink(os.readlink(link), target)

    # ---- kernels ----

    def kernel(self, version, arch):
        """The folder of a kernel: vmlinuz, modules.img, initramfs.gz, release."""
        folder = self.path("kernel", f"{version}-{arch}")
        with self.locked(f"kernel-{version}-{arch}"):
            if not os.path.exists(folder):
                shutil.rmtree(folder + ".new", ignore_errors=True)
                os.makedirs(folder + ".new")
                self.fetch_kernel(version, arch, folder + ".new")
                os.rename(folder + ".new", folder)
            initramfs = self.initramfs(folder, arch)
        with open(os.path.join(folder, "release")) as f:
            return folder, initramfs, f.read().strip()

    def fetch_kernel(self, version, arch, folder):
        _, options = self.apt(arch, kernels=True)
        packages = stock_kernels(run(["apt-cache", *options, "pkgnames", "linux-image-"]).split(), version, arch)
        if not packages:
            raise Problem(f"the package source has no Debian kernel {version} for {arch}")
        for package in packages:
            say(f"fetching {package}")
            try:
                run(["apt-get", *options, "download", f"{package}:{arch}"], cwd=folder)
                break
            except Problem as e:    # an old suite may list what its mirror no longer has
                say(str(e).splitlines()[-1])
                if package == packages[-1]:
                    raise
        tree = os.path.join(folder, "tree")
        for deb in os.listdir(folder):
            if deb.endswith(".deb"):
                run(["dpkg-deb", "-x", os.path.join(folder, deb), tree])
                os.unlink(os.path.join(folder, deb))
        modules = next(p for p in (os.path.join(tree, "usr/lib/modules"), os.path.join(tree, "lib/modules")) if os.path.isdir(p))
        release = os.listdir(modules)[0]
        if not os.path.isdir(os.path.join(tree, "lib")):
            os.symlink("usr/lib", os.path.join(tree, "lib"))
        run(["depmod", "-b", tree, release])
        shutil.copy(os.path.join(tree, "boot", "vmlinuz-" + release), os.path.join(folder, "vmlinuz"))
        self.ext4(os.path.join(modules, release), os.path.join(folder, "modules.img"), "1G")
        with open(os.path.join(folder, "release"), "w") as f:
            f.write(release + "\n")
        self.keep_boot_modules(tree, release, folder)
        shutil.rmtree(tree)

    def keep_boot_modules(self, tree, release, folder):
        """The modules that the initramfs loads, uncompressed and numbered in their order."""
        kept, order = os.path.join(folder, "boot-modules"), []
        os.makedirs(kept)
        for name in MODULES:
            shown = subprocess.run(["modprobe", "-d", tree, "-S", release, "--show-depends", name], capture_output=True, text=True, check=False)
            for line in shown.stdout.splitlines():
                words = line.split()
                if words[0] == "insmod" and words[1] not in order:
                    order.append(words[1])
        for number, path in enumerate(order):
            reader = {".xz": ["xz", "-dc"], ".zst": ["zstd", "-qdc"]}.get(os.path.splitext(path)[1], ["cat"])
            with open(os.path.join(kept, f"{number:02}.ko"), "wb") as out:
                subprocess.run([*reader, path], stdout=out, check=True)

    def busybox(self, arch):
        path = self.path("kernel", "busybox-" + arch)
        if not os.path.exists(path):
            top, options = self.apt(arch)
            work = os.path.join(top, "busybox")
            os.makedirs(work, exist_ok=True)
            run(["apt-get", *options, "download", f"busybox-static:{arch}"], cwd=work)
            deb = next(f for f in os.listdir(work) if f.endswith(".deb"))
            run(["dpkg-deb", "-x", deb, "tree"], cwd=work)
            found = next(p for p in ("bin/busybox", "usr/bin/busybox") if os.path.exists(os.path.join(work, "tree", p)))
            os.makedirs(self.path("kernel"), exist_ok=True)
            shutil.move(os.path.join(work, "tree", found), path)
            shutil.rmtree(work)
        return path

    def initramfs(self, folder, arch):
        """busybox, the modules and guest/initramfs as /init."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest", "initramfs")
        with open(script, "rb") as f:
            out = os.path.join(folder, f"initramfs-{hashlib.sha256(f.read()).hexdigest()[:12]}.gz")
        if os.path.exists(out):
            return out
        work = out + ".tree"
        shutil.rmtree(work, ignore_errors=True)
        for sub in ("bin", "proc", "sys", "dev", "new"):
            os.makedirs(os.path.join(work, sub))
        shutil.copy(self.busybox(arch), os.path.join(work, "bin", "busybox"))
        os.chmod(os.path.join(work, "bin", "busybox"), 0o755)
        os.symlink("busybox", os.path.join(work, "bin", "sh"))
        shutil.copytree(os.path.join(folder, "boot-modules"), os.path.join(work, "modules"))
        shutil.copy(script, os.path.join(work, "init"))
        os.chmod(os.path.join(work, "init"), 0o755)
        run(["sh", "-c", 'cd "$1" && find . | cpio -o -H newc --quiet | gzip -1 >"$2.new" && mv "$2.new" "$2"', "_", work, out])
        shutil.rmtree(work)
        return out


def relative_links(root, sub):
    """The linker follows links of a sysroot as the host sees them: absolute ones would leave it."""
    for name in os.listdir(os.path.join(root, sub)):
        path = os.path.join(root, sub, name)
        if os.path.islink(path) and os.readlink(path).startswith("/"):
            target = os.path.realpath(root + os.path.dirname(os.readlink(path))) + "/" + os.path.basename(os.readlink(path))
            os.unlink(path)
            os.symlink(os.path.relpath(target, os.path.realpath(os.path.dirname(path))), path)


@functools.lru_cache(maxsize=None)
def guest_file(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest", name)) as f:
        return f.read()


def configure(root):
    """Makes a Debian root filesystem a test machine: a user, our unit, and nothing that only costs time."""
    def put(path, text, mode=0o644):
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if os.path.islink(full):
            os.unlink(full)
        with open(full, "w") as f:
            f.write(text)
        os.chmod(full, mode)

    def append(path, start, line):
        full = os.path.join(root, path)
        old = open(full).read() if os.path.exists(full) else ""
        if not re.search("^" + re.escape(start), old, re.M):
            with open(full, "a") as f:
                f.write(line + "\n")

    append("etc/passwd", "user:", "user:x:1000:1000:User:/home/user:/bin/bash")
    append("etc/group", "user:", "user:x:1000:")
    append("etc/shadow", "user:", "user:*:19000:0:99999:7:::")
    append("etc/subuid", "user:", "user:100000:65536")
    append("etc/subgid", "user:", "user:100000:65536")
    home = os.path.join(root, "home/user")
    os.makedirs(home, exist_ok=True)
    os.chown(home, 1000, 1000)
    put("etc/hostname", "vm\n")
    put("etc/hosts", "127.0.0.1 localhost vm\n::1 localhost\n")
    put("etc/resolv.conf", "nameserver 127.0.0.1\n")
    put("etc/fstab", "")
    # A machine that has been started before: no presets, no first-boot work.
    put("etc/machine-id", "5f1c7a3e9b2d4c608e1f2a3b4c5d6e7f\n")
    for path in ("etc/.updated", "var/.updated"):
        put(path, "")
        os.utime(os.path.join(root, path), (2**31 - 1, 2**31 - 1))
    put("usr/local/sbin/vm-start", guest_file("start"), 0o755)
    put("etc/systemd/system/vm-start.service", guest_file("vm-start.service"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(root, DISABLED))
    units = os.path.join(root, "etc/systemd/system")
    os.makedirs(os.path.join(units, "multi-user.target.wants"), exist_ok=True)
    for link, target in [(os.path.join(units, "multi-user.target.wants", "vm-start.service"), "../vm-start.service")] + \
            [(os.path.join(units, unit), "/dev/null") for unit in MASKED]:
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(target, link)
