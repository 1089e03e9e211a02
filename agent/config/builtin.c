#include "agent/config/builtin.h"

#include <ctype.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/config/container_id.h"
#include "agent/config/found.h"
#include "agent/config/own_address.h"
#include "lib/base/array.h"
#include "lib/base/text.h"

enum { HOST_NAME_BYTES = 256 };

static void get_host_name(char name[HOST_NAME_BYTES])
{
	if (gethostname(name, HOST_NAME_BYTES) != 0) {
		snprintf(name, HOST_NAME_BYTES, "localhost");
	}
	name[HOST_NAME_BYTES - 1] = '\0';
}

static int find_host_name(const char *name, char **ret_value, struct err *err)
{
	(void)name;
	(void)err;
	char host_name[HOST_NAME_BYTES];
	get_host_name(host_name);
	*ret_value = allocate_text(host_name);
	return 0;
}

char *config_short_host_name(void)
{
	struct err unused = ERR_INIT;
	char *name = NULL;
	(void)config_found_get("berth.hostname", find_host_name, &name, &unused);
	name[strcspn(name, ".")] = '\0';
	for (char *at = name; *at; at++) {
		*at = (char)tolower((unsigned char)*at);
	}
	return name;
}

static int resolve_fqdn(const char *host_name, const char *name, char **ret_value, struct err *err)
{
	struct addrinfo hints = { .ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int why = getaddrinfo(host_name, NULL, &hints, &found);
	if (why) {
		return err_set(err, BERTH_FAILED, "${%s}: the host name %s cannot be resolved: %s",
			name, host_name, gai_strerror(why));
	}
	*ret_value = allocate_text(found->ai_canonname ? found->ai_canonname : host_name);
	freeaddrinfo(found);
	return 0;
}

/*
 * A host name with a domain is taken as it is; only a bare one costs a look into DNS, and only once
 * for a process: a reload must not make lookups wait for a resolver.
 */
static int find_fqdn(const char *name, char **ret_value, struct err *err)
{
	static char asked[HOST_NAME_BYTES];
	static char answer[NI_MAXHOST];
	char host_name[HOST_NAME_BYTES];
	get_host_name(host_name);
	if (strchr(host_name, '.')) {
		*ret_value = allocate_text(host_name);
		return 0;
	}
	if (strcmp(asked, host_name) == 0) {
		*ret_value = allocate_text(answer);
		return 0;
	}
	int code = resolve_fqdn(host_name, name, ret_value, err);
	if (code == 0) {
		text_printf(asked, sizeof(asked), "%s", host_name);
		text_printf(answer, sizeof(answer), "%s", *ret_value);
	}
	return code;
}

static char *container_id_in(const char *path, char *(*find)(const char *text))
{
	FILE *stream = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	char *found = NULL;
	/* Neither file can hold a NUL byte: this reads all of it. */
	if (stream && getdelim(&text, &size, '\0', stream) > 0) {
		found = find(text);
	}
	free(text);
	if (stream) {
		fclose(stream);
	}
	return found;
}

/* A variable that an operator sets goes before a guess: on YARN a Docker container has both. */
static int find_container_id(const char *name, char **ret_value, struct err *err)
{
	const char *given = getenv("CONTAINER_ID");
	char *found = given && *given
		? allocate_text(given)
		: container_id_in("/proc/self/cgroup", container_id_of_cgroup);
	if (!found) {
		found = container_id_in("/proc/self/mountinfo", container_id_of_mounts);
	}
	if (!found) {
		return err_set(err, BERTH_FAILED,
			"${%s}: neither $CONTAINER_ID nor /proc/self/cgroup nor "
			"/proc/self/mountinfo tells a container's id; set CONTAINER_ID",
			name);
	}
	*ret_value = found;
	return 0;
}

static const struct {
	const char *name;
	const char *variable; /* for a shell */
	config_finder *find;
	bool slow; /* may ask the resolver */
} builtins[] = {
	{ "berth.hostname", "BERTH_HOSTNAME", find_host_name, false },
	{ "berth.fqdn", "BERTH_FQDN", find_fqdn, true },
	{ "berth.ip", "BERTH_IP", config_find_address, false },
	{ "berth.ip6", "BERTH_IP6", config_find_address, false },
	{ "berth.container_id", "BERTH_CONTAINER_ID", find_container_id, false },
};

static int find_nothing(const char *name, char **ret_value, struct err *err)
{
	(void)ret_value;
	return err_set(err, BERTH_FAILED,
		"${%s} is not known; there are ${berth.hostname}, ${berth.fqdn}, ${berth.ip}, "
		"${berth.ip6}, ${berth.ip.INTERFACE} and ${berth.container_id}",
		name);
}

static config_finder *finder_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(builtins); i++) {
		if (strcmp(name, builtins[i].name) == 0) {
			return builtins[i].find;
		}
	}
	return config_is_address_name(name) ? config_find_address : find_nothing;
}

int config_builtin(const char *name, char **ret_value, struct err *err)
{
	config_finder *find = finder_of(name);
	return find == find_nothing ? find(name, ret_value, err)
				    : config_found_get(name, find, ret_value, err);
}

bool config_builtin_known(const char *name)
{
	return finder_of(name) != find_nothing;
}

static void each_interface(
	void (*take)(void *context, const char *variable, const char *value), void *context)
{
	struct err unused = ERR_INIT;
	char *text = NULL;
	char *rest;
	if (config_found_get(CONFIG_EVERY_ADDRESS, config_find_address, &text, &unused)) {
		return;
	}
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char variable[IF_NAMESIZE + sizeof("BERTH_IP_")];
		char *address = line + strcspn(line, " ");
		*address++ = '\0';
		text_printf(variable, sizeof(variable), "BERTH_IP_%s", line);
		for (char *c = variable; *c; c++) {
			*c = isalnum((unsigned char)*c) ? *c : '_';
		}
		take(context, variable, address);
	}
	free(text);
}

void config_builtin_each(const char *text,
	void (*take)(void *context, const char *variable, const char *value), void *context)
{
	for (size_t i = 0; i < ARRAY_LEN(builtins); i++) {
		struct err unused = ERR_INIT;
		char *value = NULL;
		if ((!builtins[i].slow || strstr(text, builtins[i].variable)) &&
			config_builtin(builtins[i].name, &value, &unused) == 0) {
			take(context, builtins[i].variable, value);
		}
		free(value);
	}
	each_interface(take, context);
}
