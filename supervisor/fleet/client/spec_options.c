#include "supervisor/fleet/client/spec_options.h"

#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/sandbox_options.h"

#include <sys/random.h>

void fleet_new_id(char letter, char ret[FLEET_ID_MAX + 1])
{
	static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
	unsigned char random[12];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		abort();
	ret[0] = letter;
	for (size_t i = 0; i < sizeof(random); i++)
		ret[1 + i] = digits[random[i] & 31];
	ret[1 + sizeof(random)] = 0;
}

/* Appends text with {item} and {index} replaced; without an item unchanged. */
static void replace_item(const char *text, const struct spec_item *item, struct buf *out)
{
	for (const char *at = text; *at;) {
		if (item && strncmp(at, "{item}", 6) == 0) {
			buf_str(out, item->text);
			at += 6;
		} else if (item && strncmp(at, "{index}", 7) == 0) {
			buf_printf(out, "%zu", item->index);
			at += 7;
		} else {
			buf_byte(out, *at++);
		}
	}
}

static void write_replaced(const char *text, const struct spec_item *item, struct jw *w)
{
	buf_auto struct buf out = BUF_INIT;

	replace_item(text, item, &out);
	jw_strn(w, buf_cstr(&out), out.len);
}

/* ---- needs ---- */

/* As uname -m; Debian's names are accepted. */
static const char *architecture(const char *name)
{
	return strcmp(name, "arm64") == 0 ? "aarch64" : strcmp(name, "amd64") == 0 ? "x86_64" : name;
}

/* One "K=V" of --needs. 0, or the exit status. */
static int set_need(struct cli *c, const char *option, const char *text, json_t *needs, json_t *labels)
{
	mem_auto char *name = mem_strdup(text);
	char *value = strchr(name, '=');
	struct err e = ERR_INIT;
	uint64_t number;

	if (!value || value == name)
		return cli_usage(c, "%s: '%s' is not K=V", option, text);
	*value++ = 0;
	const bool resource = strcmp(option, "--needs") == 0;
	if (resource && strcmp(name, "arch") == 0) {
		json_object_set_new(needs, name, json_string(architecture(value)));
	} else if (resource && strcmp(name, "memory") == 0) {
		if (text_size_bytes(value, &number, &e) < 0)
			return cli_usage(c, "--needs memory: %s", e.message);
		json_object_set_new(needs, name, json_integer((json_int_t)number));
	} else if (resource && strcmp(name, "cpus") == 0) {
		char *end;

		number = strtoull(value, &end, 10);
		if (!*value || *end || number < 1 || number > 65536)
			return cli_usage(c, "--needs cpus: '%s' is not a number of processors", value);
		json_object_set_new(needs, name, json_integer((json_int_t)number));
	} else {
		json_object_set_new(labels, name, json_string(value));
	}
	return 0;
}

static int write_needs(struct cli *c, struct jw *w)
{
	json_auto_t *needs = json_object(), *labels = json_object();
	int status = 0;

	for (size_t i = 0; i < c->opts.ngiven && status == 0; i++) {
		const struct opt_given *given = &c->opts.given[i];

		if (given->option == OPT_fleet_LABEL)
			status = set_need(c, "--label", given->value, needs, labels);
		if (given->option != OPT_fleet_NEEDS)
			continue;
		mem_auto char *list = mem_strdup(given->value);
		for (char *at = list, *next; at && status == 0; at = next) {
			if ((next = strchr(at, ',')))
				*next++ = 0;
			status = set_need(c, "--needs", at, needs, labels);
		}
	}
	if (status)
		return status;
	if (json_object_size(labels))
		json_object_set(needs, "labels", labels);
	mem_auto char *text = json_dumps(needs, JSON_COMPACT | JSON_SORT_KEYS);
	if (!text)
		return cli_usage(c, "--needs: not UTF-8");
	if (json_object_size(needs))
		jw_kraw(w, "needs", text, strlen(text));
	return 0;
}

/* ---- the rest ---- */

static int write_number(struct cli *c, int option, const char *name, struct jw *w)
{
	const char *text = opts_get(&c->opts, option);
	char *end;

	if (!text)
		return 0;
	unsigned long v = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end)
		return cli_usage(c, "--%s: '%s' is not a number", option_rows[option].name, text);
	jw_kuint(w, name, v);
	return 0;
}

static int write_env(struct cli *c, struct jw *w)
{
	struct err e = ERR_INIT;

	if (!opts_has(&c->opts, OPT_fleet_ENV))
		return 0;
	jw_kobj(w, "env");
	if (env_options_write(&c->opts, OPT_fleet_ENV, -1, w, &e) < 0)
		return cli_usage(c, "%s", e.message);
	jw_obj_end(w);
	return 0;
}

static int write_work(struct cli *c, const struct spec_item *item, struct jw *w)
{
	const char *agent = opts_get(&c->opts, OPT_fleet_AGENT), *model = opts_get(&c->opts, OPT_fleet_MODEL);

	if (agent && c->opts.nargs > 1)
		return cli_usage(c, "give either --agent or a command");
	if (!agent && c->opts.nargs < 2)
		return cli_usage(c, "%s needs a command after --%s", c->opts.args[0],
				 strcmp(c->opts.args[0], "submit") == 0 ? ", or --agent TEXT" : "");
	if (model && !agent)
		return cli_usage(c, "--model is for --agent");
	if (agent) {
		jw_key(w, "agent");
		write_replaced(agent, item, w);
		jw_kopt(w, "model", model);
		return 0;
	}
	jw_karr(w, "command");
	for (size_t i = 1; i < c->opts.nargs; i++)
		write_replaced(c->opts.args[i], item, w);
	jw_arr_end(w);
	return 0;
}

static int write_input(struct cli *c, const struct bundle *bundle, struct jw *w)
{
	const char *git = opts_get(&c->opts, OPT_fleet_GIT);

	if (git && opts_has(&c->opts, OPT_fleet_DIR))
		return cli_usage(c, "give either --git or --dir");
	if (bundle) {
		jw_kstr(w, "bundle", bundle->sha256);
		jw_kuint(w, "bundleBytes", bundle->bytes);
	}
	if (git) {
		const char *hash = strrchr(git, '#');

		if (!hash || hash == git || !hash[1])
			return cli_usage(c, "--git: '%s' is not URL#REF", git);
		jw_kobj(w, "git");
		jw_kstrn(w, "url", git, (size_t)(hash - git));
		jw_kstr(w, "ref", hash + 1);
		jw_obj_end(w);
	}
	return 0;
}

static int write_limits(struct cli *c, struct jw *w)
{
	const char *deadline = opts_get(&c->opts, OPT_fleet_DEADLINE), *lease = opts_get(&c->opts, OPT_fleet_LEASE);
	struct err e = ERR_INIT;
	uint64_t ms;
	int status;

	if (deadline && text_duration_ms(deadline, &ms, &e) < 0)
		return cli_usage(c, "--deadline: %s", e.message);
	if (deadline)
		jw_kuint(w, "deadlineMs", ms);
	if (lease && text_duration_ms(lease, &ms, &e) < 0)
		return cli_usage(c, "--lease: %s", e.message);
	if (lease && (ms < FLEET_LEASE_MIN_MS || ms > FLEET_LEASE_MAX_MS))
		return cli_usage(c, "--lease: must be from %us to %us", FLEET_LEASE_MIN_MS / 1000,
				 FLEET_LEASE_MAX_MS / 1000);
	if (lease)
		jw_kuint(w, "leaseMs", ms);
	if ((status = write_number(c, OPT_fleet_PRIORITY, "priority", w)) ||
	    (status = write_number(c, OPT_fleet_RETRIES, "retries", w)))
		return status;
	return write_number(c, OPT_fleet_RETRY_LOST, "retryLost", w);
}

static void write_ids(struct cli *c, int option, const char *name, struct jw *w)
{
	if (!opts_has(&c->opts, option))
		return;
	jw_karr(w, name);
	for (size_t i = 0; i < c->opts.ngiven; i++)
		if (c->opts.given[i].option == option)
			jw_str(w, c->opts.given[i].value);
	jw_arr_end(w);
}

int spec_options_write(struct cli *c, const char *id, const char *group, const struct spec_item *item,
		       const struct bundle *bundle, struct buf *ret)
{
	struct fleet_spec spec = { 0 };
	struct jw w = jw_on(ret);
	struct err e = ERR_INIT;
	int status;

	jw_obj(&w);
	jw_kuint(&w, "v", 1);
	jw_kstr(&w, "id", id);
	jw_kopt(&w, "group", group);
	jw_kopt(&w, "title", opts_get(&c->opts, OPT_fleet_TITLE));
	jw_kopt(&w, "profile", opts_get(&c->opts, OPT_fleet_PROFILE));
	if (opts_has(&c->opts, OPT_fleet_COW))
		jw_kbool(&w, "cow", true);
	if ((status = write_work(c, item, &w)) || (status = write_needs(c, &w)) || (status = write_limits(c, &w)) ||
	    (status = write_env(c, &w)) || (status = write_input(c, bundle, &w)))
		return status;
	write_ids(c, OPT_fleet_AFTER, "after", &w);
	write_ids(c, OPT_fleet_NEAR, "near", &w);
	jw_kuint(&w, "submittedAt", clock_real_us() / 1000);
	jw_obj_end(&w);
	/* The same check as a node's, so that an error is seen here. */
	if (fleet_spec_parse(ret->data, ret->len, &spec, &e) < 0)
		return cli_usage(c, "%s%s%s", e.field, e.field[0] ? ": " : "", e.message);
	fleet_spec_done(&spec);
	return 0;
}
