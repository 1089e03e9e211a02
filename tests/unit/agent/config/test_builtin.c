/* The values that Berth finds out by itself, on a machine that the test describes. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config/builtin.h"
#include "lib/base/array.h"

static const char *host_name; /* NULL: the kernel does not say */
static const char *canonical; /* NULL: no resolver knows the host */
static unsigned lookups;
static const char *cgroup = "";
static const char *mounts = "";
static int held;   /* lists of the resolver and of interfaces */
static int opened; /* of these two files */
static int closed;

int gethostname(char *name, size_t size)
{
	if (!host_name) {
		return -1;
	}
	memset(name, 'x', size);
	strncpy(name, host_name, size); /* without an end, when it is as long */
	return 0;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
	struct addrinfo **ret_found)
{
	static struct addrinfo found;
	if (hints->ai_flags & AI_NUMERICHOST) { /* of an address, which asks nobody */
		int (*real)(const char *, const char *, const struct addrinfo *,
			struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
		return real(node, service, hints, ret_found);
	}
	cr_assert_str_eq(node, host_name);
	cr_assert(hints->ai_flags & AI_CANONNAME);
	lookups++;
	if (!canonical) {
		return EAI_NONAME;
	}
	found.ai_canonname = *canonical ? (char *)(uintptr_t)canonical : NULL;
	*ret_found = &found;
	held++;
	return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
	void (*real)(struct addrinfo *) = dlsym(RTLD_NEXT, "freeaddrinfo");
	if (found->ai_addr) {
		real(found);
	} else {
		held--;
	}
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
	const char *text = strcmp(path, "/proc/self/cgroup") == 0 ? cgroup
		: strcmp(path, "/proc/self/mountinfo") == 0       ? mounts
								  : NULL;
	if (!text) {
		return real(path, mode);
	}
	opened += *text != '\0';
	return *text ? fmemopen((char *)(uintptr_t)text, strlen(text), "r") : NULL;
}

int fclose(FILE *stream)
{
	int (*real)(FILE *) = dlsym(RTLD_NEXT, "fclose");
	closed++;
	return real(stream);
}

static void expect_nothing_held(void)
{
	cr_expect_eq(held, 0);
}

TestSuite(config_builtin, .fini = expect_nothing_held);

/* The value, or the error in brackets; static. */
static const char *value_of(const char *name)
{
	static char text[600];
	char *value = NULL;
	struct err err = ERR_INIT;
	int code = config_builtin(name, &value, &err);
	cr_assert_eq(code, err.code);
	snprintf(text, sizeof(text), code ? "(%s)" : "%s", code ? err.msg : value);
	free(value);
	return text;
}

Test(config_builtin, a_bare_host_name_is_looked_up_once)
{
	host_name = "web7";
	canonical = "web7.example.org";
	cr_expect_str_eq(value_of("berth.hostname"), "web7");
	cr_expect_eq(lookups, 0);
	for (int i = 0; i < 3; i++) {
		cr_expect_str_eq(value_of("berth.fqdn"), "web7.example.org");
	}
	cr_expect_eq(lookups, 1);
	host_name = "web8";
	canonical = "web8.example.org";
	cr_expect_str_eq(value_of("berth.fqdn"), "web8.example.org", "the host has another name");
	cr_expect_eq(lookups, 2);
}

Test(config_builtin, a_host_name_with_a_domain_is_taken_as_it_is)
{
	host_name = "web7.example.org";
	cr_expect_str_eq(value_of("berth.fqdn"), "web7.example.org");
	cr_expect_str_eq(value_of("berth.hostname"), "web7.example.org");
	cr_expect_eq(lookups, 0);
}

Test(config_builtin, a_host_that_no_resolver_knows_is_asked_for_again)
{
	host_name = "web7";
	cr_expect_str_eq(value_of("berth.fqdn"),
		"(${berth.fqdn}: the host name web7 cannot be resolved: "
		"Name or service not known)");
	canonical = "";
	cr_expect_str_eq(value_of("berth.fqdn"), "web7", "a resolver that says no name");
	cr_expect_eq(lookups, 2);
}

Test(config_builtin, a_short_host_name_is_the_first_label_in_lower_case)
{
	static const struct {
		const char *name;
		const char *shown;
	} cases[] = { { "Web7.Example.org", "web7" }, { "WEB", "web" }, { "", "" },
		{ NULL, "localhost" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		host_name = cases[i].name;
		char *name = config_short_host_name();
		cr_expect_str_eq(name, cases[i].shown);
		free(name);
	}
	char longest[300];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	host_name = longest;
	char *name = config_short_host_name();
	cr_expect_eq(strlen(name), 255);
	free(name);
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_ID "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(config_builtin, a_container_is_known_by_the_first_place_that_tells)
{
	unsetenv("CONTAINER_ID");
	cr_expect_not_null(strstr(value_of("berth.container_id"), "set CONTAINER_ID"));
	mounts = "1 2 0:1 /docker/containers/" OTHER_ID "/hostname /etc/hostname rw\n";
	cr_expect_str_eq(value_of("berth.container_id"), OTHER_ID);
	cgroup = "0::/\n";
	cr_expect_str_eq(value_of("berth.container_id"), OTHER_ID);
	cgroup = "1:a:/\n0::/docker/" ID "\n";
	cr_expect_str_eq(value_of("berth.container_id"), ID);
	setenv("CONTAINER_ID", "", 1);
	cr_expect_str_eq(value_of("berth.container_id"), ID);
	cr_expect_eq(opened, closed);
	cr_expect_gt(opened, 3);
	cr_expect_str_eq(value_of("berth.container_id"), ID);
	setenv("CONTAINER_ID", "container_1", 1);
	cr_expect_str_eq(value_of("berth.container_id"), "container_1");
}

Test(config_builtin, names_are_known_or_not)
{
	static const char *const known[] = { "berth.hostname", "berth.fqdn", "berth.ip",
		"berth.ip6", "berth.container_id", "berth.ip.x" };
	static const char *const unknown[] = { "", "berth", "berth.", "berth.ip.", "berth.ip7",
		"berth.host", "berth.hostnames", "Berth.ip" };
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		cr_expect(config_builtin_known(known[i]), "%s", known[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
		cr_expect_not(config_builtin_known(unknown[i]), "%s", unknown[i]);
		cr_expect_not_null(strstr(value_of(unknown[i]), "is not known; there are"));
	}
}

static char variables[600];

static void note(void *context, const char *variable, const char *value)
{
	size_t used = strlen(variables);
	(void)context;
	snprintf(variables + used, sizeof(variables) - used, "%s=%s ", variable, value);
}

Test(config_builtin, a_shell_has_them_as_variables)
{
	setenv("CONTAINER_ID", "c", 1);
	host_name = "web7";
	canonical = "web7.example.org";
	config_builtin_each("echo $BERTH_IP", note, NULL);
	cr_expect_eq(lookups, 0, "a resolver is asked when the command wants it");
	cr_expect_eq(strncmp(variables, "BERTH_HOSTNAME=web7 ", 20), 0, "%s", variables);
	cr_expect(strstr(variables, " BERTH_CONTAINER_ID=c BERTH_IP_"), "%s", variables);
	*variables = '\0';
	config_builtin_each("echo $BERTH_FQDN", note, NULL);
	cr_expect_eq(strncmp(variables, "BERTH_HOSTNAME=web7 BERTH_FQDN=web7.example.org ", 48), 0,
		"%s", variables);
}
