/* An announcement looks again at a node, which holds the same data as before, or others. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/component/node.h"

static struct announce_wanted wanted;
static struct announce_seen seen;

static void start(void)
{
	wanted = (struct announce_wanted){ .type = DIALECT_YARN };
	seen = (struct announce_seen){ .node = ANNOUNCE_NODE_UNKNOWN };
}

static void finish(void)
{
	announce_wanted_finish(&wanted);
	announce_seen_finish(&seen);
}

TestSuite(node, .init = start, .fini = finish);

#define RECORD(id, members)                                                                        \
	"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"" id                                        \
	"\",\"external\":[],\"internal\":[]" members "}"

static bool want(const char *data)
{
	char copy[512];
	strcpy(copy, data);
	const struct dialect_node node = { .data = copy, .len = strlen(copy) };
	return announce_wanted_set(&wanted, &node);
}

static void see(const char *data)
{
	const struct registry_stat stat = { .version = seen.stat.version + 1 };
	announce_seen_set(&seen, wanted.type, &stat, data, strlen(data), NULL);
}

static enum announce_likeness likeness(void)
{
	return announce_likeness_of(&wanted, &seen);
}

static const char *description(void)
{
	static char why[200];
	announce_describe_other(&seen, "/a", why, sizeof(why));
	return why;
}

Test(node, other_data_are_read_anew)
{
	want(RECORD("a", ""));
	see(RECORD("b", ""));
	cr_expect_eq(likeness(), ANNOUNCE_LIKE_NOTHING);
	see(RECORD("a", " "));
	cr_expect_eq(likeness(), ANNOUNCE_LIKE_RECORD);
	want(RECORD("b", ""));
	cr_expect_eq(likeness(), ANNOUNCE_LIKE_NOTHING);
	see(RECORD("b", ""));
	cr_expect_eq(likeness(), ANNOUNCE_LIKE_BYTES);
	see("{\"type\":\"JSONServiceRecord\",");
	cr_expect_eq(likeness(), ANNOUNCE_LIKE_NOTHING);
	cr_expect_str_eq(description(), "an unreadable record is at /a");
	see("");
	cr_expect_eq(seen.node, ANNOUNCE_NODE_EMPTY);
	see("text");
	cr_expect_eq(seen.node, ANNOUNCE_NODE_FOREIGN);
}
