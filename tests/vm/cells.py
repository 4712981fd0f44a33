"""The matrix: which kernels, and how each is set up."""

import dataclasses

TOO_OLD = "5.10"                # bailiff refuses it with one sentence
KERNELS = [TOO_OLD, "6.1", "6.12"]


@dataclasses.dataclass
class Cell:
    name: str
    arch: str
    kernel: str
    about: str = "systemd, cgroup v2"
    append: str = ""
    kind: str = "systemd"       # what the guest's checks go by

    def describe(self):
        """As shell variables, for the guest's scripts."""
        return f"CELL={self.name}\nKIND={self.kind}\nKERNEL={self.kernel}\nARCH={self.arch}\n"


# Suffix of the name, what it is, kernel command line, kind; `only`: the kernels that have it (None: all but the too old one).
SETUPS = [
    ("", "systemd, cgroup v2", "", "systemd", None),
    ("-plain", "no systemd, cgroup v2", "vm.init=/usr/local/sbin/vm-start vm.cgroup=v2", "plain", None),
    ("-v1", "systemd, cgroup v1", "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1", "v1", None),
    ("-hybrid", "systemd, cgroup v1 and an empty v2 tree", "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=0", "hybrid", None),
    ("-nocgroup", "no systemd, no cgroups", "vm.init=/usr/local/sbin/vm-start vm.cgroup=none", "nocgroup", None),
    ("-nouserns", "unprivileged user namespaces off", "", "nouserns", None),
    ("-noquota", "no user namespace may be made", "", "noquota", None),
    ("-container", "in containers of podman", "", "container", None),
    ("-too-old", "a kernel that is too old", "vm.init=/usr/local/sbin/vm-start vm.cgroup=v2", "too-old", [TOO_OLD]),
]


def all_cells(arches, kernels):
    found = []
    for arch in arches:
        for kernel in kernels:
            for suffix, about, append, kind, only in SETUPS:
                if (kernel in only) if only else (kernel != TOO_OLD):
                    found.append(Cell(f"{arch}-{kernel}{suffix}", arch, kernel, about, append, kind))
    return found


def select(arches, kernels, which, words):
    """The cells of the options. The full set only has the plain setup of each kernel, unless cells are named."""
    found = all_cells(arches, kernels or KERNELS)
    if words:
        return [c for c in found if any(c.name == w for w in words)] or [c for c in found if any(w in c.name for w in words)]
    if which == "full":
        return [c for c in found if c.kind == "systemd"]
    return found
