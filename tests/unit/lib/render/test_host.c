/* Which hosts can be used, and what becomes of those that cannot. */
#include "lib/base/array.h"
#include "lib/render/host.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/render/render.h"

TestSuite(render_host);

#define L63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define L61 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
	const char *host;
	enum render_host kind;
	const char *form; /* NULL: as it is */
} rows[] = {
	{ "10.0.0.1", RENDER_HOST_ADDRESS, NULL },
	{ "::1", RENDER_HOST_ADDRESS, NULL },
	{ "0:0:0::1", RENDER_HOST_ADDRESS, "::1" },
	{ "2001:DB8:0:0:1::1", RENDER_HOST_ADDRESS, "2001:db8::1:0:0:1" },
	{ "::102:304", RENDER_HOST_ADDRESS, "::1.2.3.4" },
	{ "a", RENDER_HOST_NAME, NULL },
	{ "1a", RENDER_HOST_NAME, NULL },
	{ "a1", RENDER_HOST_NAME, NULL },
	{ "A-b_c.Example.org", RENDER_HOST_NAME, NULL },
	{ "a.example.org.", RENDER_HOST_NAME, NULL },
	{ "a_", RENDER_HOST_NAME, NULL },
	{ "123456789012", RENDER_HOST_NAME, NULL }, /* a container's id */
	{ "1.a", RENDER_HOST_NAME, NULL },
	{ "a.1b", RENDER_HOST_NAME, NULL },
	{ L63, RENDER_HOST_NAME, NULL },
	{ L63 ".a", RENDER_HOST_NAME, NULL },
	{ L63 "a", RENDER_HOST_BAD, NULL },
	{ "a." L63 "a", RENDER_HOST_BAD, NULL },
	{ L63 "." L63 "." L63 "." L61, RENDER_HOST_NAME, NULL },
	{ L63 "." L63 "." L63 "." L61 ".", RENDER_HOST_NAME, NULL },
	{ L63 "." L63 "." L63 "." L61 "a", RENDER_HOST_BAD, NULL },
	{ "", RENDER_HOST_BAD, NULL },
	{ ".", RENDER_HOST_BAD, NULL },
	{ "..", RENDER_HOST_BAD, NULL },
	{ "a..", RENDER_HOST_BAD, NULL },
	{ ".a", RENDER_HOST_BAD, NULL },
	{ "a..b", RENDER_HOST_BAD, NULL },
	{ "-", RENDER_HOST_BAD, NULL },
	{ "-a", RENDER_HOST_BAD, NULL },
	{ "a-", RENDER_HOST_BAD, NULL },
	{ "a-.b", RENDER_HOST_BAD, NULL },
	{ "_a", RENDER_HOST_BAD, NULL },
	{ "a b", RENDER_HOST_BAD, NULL },
	{ "a/b", RENDER_HOST_BAD, NULL },
	{ "\303\251", RENDER_HOST_BAD, NULL },
	{ "1.2.3.4:99", RENDER_HOST_BAD, NULL },
	{ "127.1", RENDER_HOST_BAD, NULL },
	{ "1", RENDER_HOST_BAD, NULL },
	{ "0x7f000001", RENDER_HOST_BAD, NULL },
	{ "0x7f.1", RENDER_HOST_BAD, NULL },
	{ "999.1.1.1", RENDER_HOST_BAD, NULL },
	{ "a.1", RENDER_HOST_BAD, NULL },
	{ "a.1.", RENDER_HOST_BAD, NULL },
	{ "1.2.3.4.", RENDER_HOST_BAD, NULL },
};

Test(render_host, hosts_by_their_grammar)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char host[300];
		strcpy(host, rows[i].host);
		cr_expect_eq(render_host_read(host), rows[i].kind, "%s", rows[i].host);
		cr_expect_str_eq(host, rows[i].form ? rows[i].form : rows[i].host);
	}
}

/* ---- items ---- */

static struct render_result result;
static char taken[1000];

static const char *take(void *context, const struct render_item *item)
{
	cr_assert_eq(context, taken);
	const char *problem = render_server_problem(item);
	cr_expect(!item->problem || *item->target.host == '\0', "a host that cannot be used");
	if (!problem) {
		sprintf(taken + strlen(taken), "%s %s:%u %d %zu;", item->path, item->target.host,
			item->target.port, item->literal, item->index);
	}
	return problem;
}

/* The items of a record with these addresses at "/a/PATH". */
static const char *take_all(const char *path, const char *addresses)
{
	char text[4000];
	struct record *record;
	snprintf(text, sizeof(text),
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"x\",\"addressType\":"
		"\"host/port\",\"protocol\":\"\",\"addresses\":[%s]}],\"internal\":[]}",
		addresses);
	cr_assert_eq(record_decode(&record, text, strlen(text), NULL), 0);
	const struct render_member member = { .path = path, .record = record };
	const struct render_picture picture = { "/", &member, 1 };
	taken[0] = '\0';
	memset(&result, 0xff, sizeof(result));
	render_each(&picture, &(struct render_filter){ NULL }, take, taken, &result);
	record_free(record);
	return taken;
}

#define A(host, port) "{\"host\":\"" host "\",\"port\":\"" port "\"}"

Test(render_host, good_items_are_numbered_and_the_others_named)
{
	cr_expect_str_eq(take_all("/a", A("a..b", "1") "," A("a", "2") "," A("0::1", "3")),
		"/a a:2 0 0;/a ::1:3 1 1;");
	cr_expect_eq(result.items, 2);
	cr_expect_eq(result.left_out, 1);
	cr_expect_str_eq(
		result.why, "left out: /a \"a..b:1\" names neither an address nor a host name");
	cr_expect_str_eq(
		take_all("/a", "{\"host\":\"a\"}," A("a b", "1") ",{\"path\":\"/x\"}"), "");
	cr_expect_eq(result.left_out, 3);
	cr_expect_str_eq(result.why,
		"left out: /a has no port; "
		"/a \"a b:1\" names no host; /a names no host");
	cr_expect_str_eq(take_all("/a", A("a", "1")), "/a a:1 0 0;");
	cr_expect_str_eq(result.why, "");
	cr_expect_eq(result.left_out, 0);
}

Test(render_host, the_first_three_are_named)
{
	take_all("/a", A(".", "1") "," A(".", "2") "," A(".", "3") "," A(".", "4"));
	cr_expect_eq(result.left_out, 4);
	cr_expect_not_null(strstr(result.why, "\".:3\" names neither"));
	cr_expect_null(strstr(result.why, "\".:4\""));
	cr_expect_str_eq(result.why + strlen(result.why) - 12, "; and 1 more");
	char path[RENDER_WHY_BYTES + 100];
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	take_all(path, A(".", "1") "," A(".", "2") "," A(".", "3") "," A(".", "4") "," A(".", "5"));
	cr_expect_str_eq(result.why + strlen(result.why) - 12, "; and 2 more", "%s", result.why);
	cr_expect_geq(strlen(result.why), (size_t)RENDER_WHY_BYTES - 50);
}
