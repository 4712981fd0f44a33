#include "sandbox/socket_counter.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LEAST_MAJOR 5
#define LEAST_MINOR 16

static int call_bpf(enum bpf_cmd cmd, union bpf_attr *a) { return (int)syscall(SYS_bpf, cmd, a, sizeof *a); }

static bool has_kernel(void)
{
	struct utsname name;
	int major = 0, minor = 0;
	return uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
	       (major > LEAST_MAJOR || (major == LEAST_MAJOR && minor >= LEAST_MINOR));
}

/* One number in a page that this process can map. */
static int make_map(void)
{
	union bpf_attr a = { .map_type = BPF_MAP_TYPE_ARRAY,
			     .key_size = sizeof(uint32_t),
			     .value_size = sizeof(uint64_t),
			     .max_entries = 1,
			     .map_flags = BPF_F_MMAPABLE,
			     .map_name = "bailiff_sockets" };
	return call_bpf(BPF_MAP_CREATE, &a);
}

/* Adds 1 to the number and lets the socket be created. */
static int load_program(int map)
{
	const struct bpf_insn code[] = {
		{ .code = BPF_LD | BPF_IMM | BPF_DW,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_VALUE,
		  .imm = map },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 1 },
		{ .code = BPF_STX | BPF_ATOMIC | BPF_DW, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_2, .imm = BPF_ADD },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr a = { .prog_type = BPF_PROG_TYPE_CGROUP_SOCK,
			     .expected_attach_type = BPF_CGROUP_INET_SOCK_CREATE,
			     .insns = (uint64_t)(uintptr_t)code,
			     .insn_cnt = countof(code),
			     .license = (uint64_t)(uintptr_t) "",
			     .prog_name = "bailiff_sockets" };
	return call_bpf(BPF_PROG_LOAD, &a);
}

static int attach_program(int program, int cgroup)
{
	union bpf_attr a = { .link_create = { .prog_fd = (uint32_t)program,
					      .target_fd = (uint32_t)cgroup,
					      .attach_type = BPF_CGROUP_INET_SOCK_CREATE } };
	return call_bpf(BPF_LINK_CREATE, &a);
}

void socket_counter_open(struct socket_counter *c, int cgroup)
{
	*c = (struct socket_counter){ .link = -1 };
	if (cgroup < 0 || !has_kernel())
		return;
	fd_auto int map = make_map();
	fd_auto int program = map < 0 ? -1 : load_program(map);
	fd_auto int link = program < 0 ? -1 : attach_program(program, cgroup);
	void *page = link < 0 ? MAP_FAILED : mmap(NULL, sizeof *c->count, PROT_READ, MAP_SHARED, map, 0);
	if (page == MAP_FAILED) {
		log_debug("sockets of sandboxes are not counted: %s", strerror(errno));
		return;
	}
	c->count = page;
	c->link = fd_take(&link);
}

void socket_counter_close(struct socket_counter *c)
{
	if (c->count)
		munmap((void *)(uintptr_t)c->count, sizeof *c->count);
	c->count = NULL;
	fd_close(&c->link);
}

bool socket_counter_works(const volatile uint64_t *count)
{
	uint64_t before = *count;
	fd_auto int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && *count != before;
}
