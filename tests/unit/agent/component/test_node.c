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

Test(node, wanted_data_are_others_only_when_they_differ)
{
	cr_expect(want(RECORD("a", "")));
	cr_expect(wanted.has_id);
	cr_expect_not(want(RECORD("a", "")));
	cr_expect(want(RECORD("", "")));
	cr_expect_not(wanted.has_id);
}

Test(node, a_look_that_finds_the_same_knows_the_same)
{
	want(RECORD("a", ""));
	for (int look = 0; look < 3; look++) {
		see(RECORD("a", ",\"more\":1"));
		cr_expect_eq(seen.node, ANNOUNCE_NODE_RECORD);
		cr_expect_eq(seen.stat.version, look + 1);
		cr_expect_eq(likeness(), ANNOUNCE_LIKE_ID);
		cr_expect_str_eq(description(), "another record is at /a (yarn:id \"a\")");
		announce_seen_forget(&seen, ANNOUNCE_NODE_UNKNOWN);
	}
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
