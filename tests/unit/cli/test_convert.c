/* LINK: $(CONVERTERS) */
/* Registrar's configuration as berth.ini: what each of its keys becomes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/convert.h"
#include "lib/base/array.h"
#include "tests/support/scratch.h"

/* The text that a document becomes; NULL, and the reason in `err`, when it is refused. */
static char *convert(const char *document, struct err *err)
{
	char path[SCRATCH_PATH];
	char *text = NULL;
	size_t len = 0;
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, document, strlen(document)), (ssize_t)strlen(document));
	close(fd);
	FILE *out = open_memstream(&text, &len);
	int code = convert_file(CONVERT_REGISTRAR, path, out, err);
	fclose(out);
	unlink(path);
	if (code) {
		free(text);
		return NULL;
	}
	return text;
}

#define ZOOKEEPER "\"zookeeper\":{\"servers\":[{\"host\":\"z\"}]}"
#define REGISTRATION(more)                                                                         \
	"{" ZOOKEEPER ",\"registration\":{\"domain\":\"web.example\",\"type\":\"host\"" more "}}"
#define SERVICE(fields) REGISTRATION(",\"service\":{\"type\":\"service\",\"service\":{" fields "}}")
#define BESIDE(more)                                                                               \
	"{" ZOOKEEPER ",\"registration\":{\"domain\":\"web.example\",\"type\":\"host\"}," more "}"
#define CHECK(fields) BESIDE("\"healthCheck\":{" fields "}")

static const struct {
	const char *document;
	const char *part;    /* of the text */
	const char *lacking; /* not in the text; NULL: nothing to look for */
} rows[] = {
	{ REGISTRATION(""), "url = zookeeper://z:2181/registry\n", "session_timeout" },
	{ REGISTRATION(""), "host_type = host\n", "[endpoint" },
	{ REGISTRATION(",\"ttl\":30,\"ports\":[1,2],\"aliases\":[\"a.b\",\"c.d\"]"),
		"aliases = a.b, c.d\nttl = 30\nports = 1, 2\n", "[endpoint" },
	{ REGISTRATION(",\"odd\":1,\"heartbeatInterval\":3"),
		"; dropped: registration.odd: ", NULL },
	{ SERVICE("\"srvce\":\"_http\",\"proto\":\"_tcp\",\"port\":80,\"ttl\":45"),
		"service = _http\nprotocol = _tcp\nport = 80\nservice_ttl = 45\n", NULL },
	{ SERVICE("\"srvce\":\"_http\",\"port\":80"), "api = http\nprotocol = http\n", NULL },
	{ SERVICE("\"srvce\":\"http\",\"port\":80"), "api = http\nprotocol = http\n", NULL },
	{ SERVICE("\"srvce\":\"_\",\"port\":80"), "api = service\nprotocol = tcp\n", NULL },
	{ SERVICE("\"port\":80"), "api = service\nprotocol = tcp\n", "\nservice = " },
	{ SERVICE("\"port\":80"), "address = ${berth.ip}:80\n", "service_ttl" },
	{ SERVICE("\"srvce\":\"_http\""), "service = _http\n", "[endpoint" },
	{ BESIDE("\"adminIp\":\"10.0.0.1\""), "address = 10.0.0.1\n", NULL },
	{ BESIDE("\"logLevel\":\"fatal\""), "log_level = error\n", NULL },
	{ BESIDE("\"logLevel\":10"), "log_level = debug\n", NULL },
	{ BESIDE("\"logLevel\":\"loud\""), "; dropped: logLevel: ", "log_level" },
	{ BESIDE("\"logLevel\":11"), "; dropped: logLevel: ", "log_level" },
	{ CHECK("\"command\":\"a | b\""), "command = a | b\n", "ignore_exit_status" },
	{ CHECK("\"command\":\"a\""),
		"interval = 60000ms\ntimeout = 1000ms\nfall = 5\nwindow = 300s\n", "dropped" },
	{ CHECK("\"command\":\"a\",\"interval\":100000,\"ignoreExitStatus\":true"),
		"; dropped: healthCheck.period: ", "window" },
	{ CHECK("\"command\":\"a\",\"ignoreExitStatus\":true"), "ignore_exit_status = yes\n",
		NULL },
	{ CHECK("\"command\":\"a\",\"stdoutMatch\":{\"pattern\":\"^ok$\"}"), "match = ^ok$$\n",
		"match_i" },
	{ CHECK("\"command\":\"a\",\"stdoutMatch\":{\"pattern\":\"ok\",\"flags\":\"i\"}"),
		"match_ignore_case = yes\n", "dropped" },
	{ CHECK("\"command\":\"a\",\"stdoutMatch\":{\"pattern\":\"ok\",\"flags\":\"gm\"}"),
		"; dropped: healthCheck.stdoutMatch.flags: ", "match_ignore_case" },
	{ CHECK("\"command\":\"a\",\"stdoutMatch\":{\"pattern\":\"ok\",\"invert\":true}"),
		"match_invert = yes\n", NULL },
	{ CHECK("\"command\":\"a\",\"stdoutMatch\":{\"flags\":\"i\"}"), "command = a\n", "match" },
	{ CHECK("\"interval\":1"), "[dialect binder]", "[check" },
};

Test(convert, each_key_of_registrars_has_its_counterpart_or_a_reason)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		char *text = convert(rows[i].document, &err);
		cr_assert_not_null(text, "%s: %s", rows[i].document, err.msg);
		cr_expect(strstr(text, rows[i].part), "%s\nlacks %s", text, rows[i].part);
		cr_expect(!rows[i].lacking || !strstr(text, rows[i].lacking), "%s\nhas %s", text,
			rows[i].lacking);
		free(text);
	}
}

static const struct {
	const char *document;
	const char *part; /* of the reason */
} refused[] = {
	{ "{", "" },
	{ "{}", "registration.domain" },
	{ "{" ZOOKEEPER ",\"registration\":{\"domain\":\"a.b\"}}", "registration.type" },
	{ "{\"registration\":{\"domain\":\"a.b\",\"type\":\"host\"}}", "zookeeper.servers" },
	{ "{\"zookeeper\":{\"servers\":[{}]},"
	  "\"registration\":{\"domain\":\"a.b\",\"type\":\"host\"}}",
		"no host" },
	{ "{\"zookeeper\":{\"servers\":[{\"host\":\"a,b\"}]},"
	  "\"registration\":{\"domain\":\"a.b\",\"type\":\"host\"}}",
		"no host" },
	{ BESIDE("\"adminIp\":\"::1\""), "is not an IPv4 address" },
};

Test(convert, a_file_that_registrar_cannot_run_with_is_refused)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct err err = ERR_INIT;
		cr_expect_null(convert(refused[i].document, &err), "%s", refused[i].document);
		cr_expect_eq(err.code, BERTH_FAILED);
		cr_expect(strstr(err.msg, refused[i].part), "%s", err.msg);
	}
}
