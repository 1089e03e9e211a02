/* Rules for an [output] as a whole: options that need, or exclude, one another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/allocate.h"
#include "agent/base/file_place.h"
#include "agent/base/file_work.h"
#include "agent/base/mount.h"
#include "agent/config/build.h"
#include "agent/config/doubt.h"
#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/record/select.h"

enum { QUIET_MS = 200, QUIET_RUNTIME_MS = 10 };

/* "/a/b" and its tree, "/a/b/" with two asterisks, have one path. */
static void split_from(struct config_output *output)
{
	static const char tree[] = "/**";
	size_t len = strlen(output->from);
	size_t suffix_len = strlen(tree);
	output->from_tree = len >= suffix_len && strcmp(output->from + len - suffix_len, tree) == 0;
	len -= output->from_tree ? suffix_len : 0;
	output->from_path = len ? allocate_bytes(output->from, len) : allocate_text("/");
}

static void rule_attributes(struct config_builder *builder, struct config_output *output)
{
	char selection[SELECT_BYTES] = "";
	for (size_t i = 0; i < output->attribute_count; i++) {
		const struct config_name_value *wanted = &output->attributes[i];
		char key[SELECT_BYTES];
		struct err err = ERR_INIT;
		if (select_add(selection, wanted->name, wanted->value, &err)) {
			snprintf(key, sizeof(key), "attribute.%s", wanted->name);
			config_fault(builder, key, "%s", err.msg);
		}
	}
	output->selection = allocate_text(selection);
}

static void refuse_key(struct config_builder *builder, const char *key, const char *where)
{
	if (!config_is_bad(builder, key) && !config_lacks(builder, key)) {
		config_fault(builder, key, "`%s` means nothing %s", key, where);
	}
}

static void rule_runtime(struct config_builder *builder, const struct config_output *output)
{
	static const char *const of_files[] = { "path", "mode", "owner", "group", "check",
		"on_change" };
	config_require(builder, "socket");
	config_require(builder, "backend");
	for (size_t i = 0; i < ARRAY_LEN(of_files); i++) {
		refuse_key(builder, of_files[i],
			"with `format = haproxy-runtime`, which writes no file");
	}
	if (output->write == CONFIG_WRITE_IN_PLACE) {
		refuse_key(builder, "write", "with `format = haproxy-runtime`");
	}
}

static void rule_file(struct config_builder *builder, const struct config_output *output)
{
	config_require(builder, "path");
	refuse_key(builder, "socket", "without `format = haproxy-runtime`");
	if (output->format != CONFIG_FORMAT_HAPROXY) {
		refuse_key(builder, "backend", "without `format = haproxy` or haproxy-runtime");
	}
}

/* A file that is a mount can only be written over. */
static void rule_write(struct config_builder *builder, struct config_output *output)
{
	static const char *const of_new_files[] = { "mode", "owner", "group" };
	const struct config_output *former = builder->former
		? config_output_named(builder->former, builder->section->name)
		: NULL;
	bool is_mount = former ? former->write == CONFIG_WRITE_IN_PLACE
			       : !config_is_bad(builder, "path") && mount_is_at(output->path);
	if (config_lacks(builder, "write")) {
		output->write = is_mount ? CONFIG_WRITE_IN_PLACE : CONFIG_WRITE_REPLACE;
	} else if (output->write == CONFIG_WRITE_REPLACE && is_mount) {
		config_fault(builder, "write",
			"`write`: %s is a mount, which cannot be replaced: in-place writes into it",
			output->path);
	} else if (output->write == CONFIG_WRITE_IN_PLACE && !is_mount) {
		config_doubt(builder, "write",
			"%s is not a mount here: with replace, readers see no half of a file",
			output->path);
	}
	for (size_t i = 0; output->write == CONFIG_WRITE_IN_PLACE && i < 3; i++) {
		refuse_key(builder, of_new_files[i],
			is_mount ? "for a file that is a mount, which is written in place"
				 : "with `write = in-place`");
	}
}

/* The source of the content; with `render` alone `format = render` is not needed. */
static void rule_content(struct config_builder *builder, struct config_output *output)
{
	bool has_render = !config_lacks(builder, "render");
	if (config_lacks(builder, "format")) {
		output->format = CONFIG_FORMAT_RENDER;
		if (!has_render) {
			config_fault(builder, NULL,
				"[output %s] needs `format`, or `render` with a command",
				builder->section->name);
		}
	} else if (has_render && output->format != CONFIG_FORMAT_RENDER) {
		config_fault(builder, "render",
			"`render` makes the whole content: it goes without another `format`");
	} else if (!has_render && output->format == CONFIG_FORMAT_RENDER) {
		config_require(builder, "render");
	}
}

/* The text of the list's item; each path counts once. */
static void rule_failover(struct config_builder *builder, const struct config_output *output)
{
	for (size_t i = 0; i < output->failover_count; i++) {
		const char *path = output->failover[i];
		bool twice = strcmp(path, output->from) == 0;
		for (size_t before = 0; before < i; before++) {
			twice = twice || strcmp(path, output->failover[before]) == 0;
		}
		if (twice) {
			config_fault(builder, "failover",
				"`failover`: %s is followed already; name other paths", path);
		}
	}
}

static void rule_prefer(struct config_builder *builder, struct config_output *output)
{
	if (config_lacks(builder, "prefer")) {
		output->prefer = output->format == CONFIG_FORMAT_ENVOY ? CONFIG_PREFER_ZONE
								       : CONFIG_PREFER_NOTHING;
	} else if (output->prefer == CONFIG_PREFER_ZONE && !*builder->config->agent.zone &&
		output->failover_count == 0 && output->format != CONFIG_FORMAT_ENVOY &&
		!config_is_bad(builder, "prefer")) {
		config_doubt(builder, "prefer",
			"nothing is nearer than anything else without `zone` in [agent]");
	}
}

static void rule_times(struct config_builder *builder, struct config_output *output)
{
	if (config_lacks(builder, "quiet")) {
		output->quiet_ms = output->format == CONFIG_FORMAT_HAPROXY_RUNTIME
			? QUIET_RUNTIME_MS
			: QUIET_MS;
	}
	if (output->max_wait_ms < output->quiet_ms && !config_is_bad(builder, "quiet") &&
		!config_is_bad(builder, "max_wait")) {
		config_fault(builder, config_key_or(builder, "max_wait", "quiet"),
			"`max_wait` (%lldms) must not be less than `quiet` (%lldms)",
			(long long)output->max_wait_ms, (long long)output->quiet_ms);
	}
}

static void doubt_check(struct config_builder *builder, const struct config_output *output)
{
	if (output->check_argv && !strstr(output->check, "{}")) {
		config_doubt(builder, "check",
			"it has no {}, the name of the new file: it sees what is there already");
	}
}

static void doubt_owner(struct config_builder *builder, const struct config_output *output)
{
	const struct config_agent *agent = &builder->config->agent;
	struct err owner = ERR_INIT;
	struct err group = ERR_INIT;
	if (!config_is_bad(builder, "owner") && config_doubt_owner(output, agent, &owner)) {
		config_doubt(builder, "owner", "%s", owner.msg);
	}
	if (!config_is_bad(builder, "group") && config_doubt_group(output, agent, &group)) {
		config_doubt(builder, "group", "%s", group.msg);
	}
}

/* An output makes its file, and no directory. */
static void doubt_directory(struct config_builder *builder, const struct config_output *output)
{
	struct stat status;
	const char *slash = strrchr(output->path, '/');
	if (config_is_bad(builder, "path") || !slash || slash == output->path) {
		return;
	}
	char *directory = allocate_bytes(output->path, (size_t)(slash - output->path));
	if (stat(directory, &status) != 0 || !S_ISDIR(status.st_mode)) {
		config_doubt(builder, "path", "there is no directory %s here", directory);
	}
	free(directory);
}

static size_t depth_of(const char *path)
{
	size_t depth = 0;
	for (const char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
		depth++;
	}
	return depth;
}

/* /users/USER/CLASS/INSTANCE, or Hadoop's /users/USER/services/CLASS/INSTANCE. */
static bool is_instance(const char *path)
{
	size_t depth = depth_of(path);
	if (depth < 4 || !path_is_under(path, "/users")) {
		return false;
	}
	const char *level = strchr(path + strlen("/users/"), '/');
	return depth == (path_is_under(level, "/services") ? 5 : 4) &&
		strcmp(path_name(path), "components") != 0;
}

/* The record of an instance and its direct children: the components are one level deeper. */
static void doubt_from(struct config_builder *builder, const struct config_output *output)
{
	if (config_is_bad(builder, "from") || output->from_tree ||
		!is_instance(output->from_path)) {
		return;
	}
	config_doubt(builder, "from",
		"is an instance, and its components are not its direct children: write "
		"%s/components",
		output->from_path);
}

/* The path may be a link, or a file that others write, too. */
static void doubt_place(struct config_builder *builder, const struct config_output *output)
{
	struct err doubt = ERR_INIT;
	struct stat status;
	if (!*output->path || config_is_bad(builder, "path")) {
		return;
	}
	bool in_place = output->write == CONFIG_WRITE_IN_PLACE;
	char *place = in_place ? allocate_text(output->path) : file_place(output->path, &doubt);
	if (!doubt.code && in_place && lstat(place, &status) == 0 && S_ISLNK(status.st_mode)) {
		err_set(&doubt, BERTH_FAILED,
			"%s is a symbolic link, through which nothing is written in place", place);
	} else if (!doubt.code && output->format == CONFIG_FORMAT_HOSTS) {
		const struct file_work work = { .path = place,
			.block = builder->section->name,
			.block_domain = builder->config->dns.domain };
		struct file_version ignored;
		struct buffer whole;
		buffer_init(&whole, SIZE_MAX);
		(void)file_work_content(&work, &whole, &ignored, &doubt);
		buffer_finish(&whole);
	} else if (!doubt.code && strcmp(place, "/etc/hosts") == 0) {
		err_set(&doubt, BERTH_FAILED,
			"%s would hold nothing else, localhost neither: `format = hosts` keeps the "
			"rest",
			place);
	}
	if (doubt.code) {
		config_doubt(builder, "path", "%s", doubt.msg);
	}
	free(place);
}

/* Two outputs that write one file, or keep one backend, would undo each other's work for ever. */
static void refuse_same_place(struct config_builder *builder, const struct config_output *output)
{
	for (size_t i = 0; i + 1 < builder->config->output_count; i++) {
		const struct config_output *other = &builder->config->outputs[i];
		bool blocks = output->format == CONFIG_FORMAT_HOSTS &&
			other->format == CONFIG_FORMAT_HOSTS;
		if (*output->path && strcmp(output->path, other->path) == 0 && !blocks) {
			config_fault(
				builder, "path", "[output %s] writes this file, too", other->name);
		} else if (*output->socket && strcmp(output->socket, other->socket) == 0 &&
			strcmp(output->backend, other->backend) == 0) {
			config_fault(builder, "backend", "[output %s] keeps this backend, too",
				other->name);
		}
	}
}

void config_rule_output(struct config_builder *builder, struct config_output *output)
{
	split_from(output);
	rule_attributes(builder, output);
	config_require(builder, "from");
	if (!config_is_bad(builder, "format")) {
		rule_content(builder, output);
		if (output->format == CONFIG_FORMAT_HAPROXY_RUNTIME) {
			rule_runtime(builder, output);
		} else {
			rule_file(builder, output);
			rule_write(builder, output);
		}
	}
	rule_times(builder, output);
	rule_failover(builder, output);
	rule_prefer(builder, output);
	refuse_same_place(builder, output);
	if (builder->former) {
		return;
	}
	config_doubt_command(builder, "render", output->render_argv);
	config_doubt_command(builder, "check", output->check_argv);
	config_doubt_command(builder, "on_change", output->on_change_argv);
	doubt_check(builder, output);
	doubt_directory(builder, output);
	doubt_place(builder, output);
	doubt_from(builder, output);
	doubt_owner(builder, output);
}
