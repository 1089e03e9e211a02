/* A node as the wish wants it and as the registry has it: how alike they are. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "agent/component/node.h"
#include "lib/base/array.h"

#define RECORD(more) "{\"type\":\"JSONServiceRecord\"" more "}"
#define HOST(address)                                                                              \
	"{\"type\":\"host\",\"address\":\"" address "\",\"host\":{\"address\":\"" address "\"}}"

static const char PATH[] = "/app/c1";

static struct announce_seen see(enum dialect_type type, const char *data)
{
	struct announce_seen seen = { 0 };
	const struct registry_stat stat = { 0 };
	announce_seen_set(&seen, type, &stat, data, strlen(data), NULL);
	return seen;
}

static struct announce_wanted want(enum dialect_type type, const char *data)
{
	struct announce_wanted wanted = { .type = type };
	const struct dialect_node node = {
		.path = (char *)PATH, .data = (char *)data, .len = strlen(data)
	};
	announce_wanted_set(&wanted, &node);
	return wanted;
}

struct kind_case {
	int type;
	char data[64];
	int node;
};

ParameterizedTestParameters(likeness, data_that_are_no_record_are_another_programs)
{
	static struct kind_case cases[] = {
		{ DIALECT_YARN, "", ANNOUNCE_NODE_EMPTY },
		{ DIALECT_YARN, RECORD(""), ANNOUNCE_NODE_RECORD },
		{ DIALECT_YARN, "{\"type\":\"host\"}", ANNOUNCE_NODE_FOREIGN },
		{ DIALECT_YARN, "host-a:80", ANNOUNCE_NODE_FOREIGN },
		{ DIALECT_REGISTRAR, "", ANNOUNCE_NODE_EMPTY },
		{ DIALECT_REGISTRAR, "{\"type\":\"host\"}", ANNOUNCE_NODE_RECORD },
		{ DIALECT_REGISTRAR, "[1]", ANNOUNCE_NODE_FOREIGN },
		{ DIALECT_REGISTRAR, "host-a:80", ANNOUNCE_NODE_FOREIGN },
		{ DIALECT_SPRING, "{\"id\":\"i1\",\"id\":\"i1\"}", ANNOUNCE_NODE_RECORD },
	};
	return cr_make_param_array(struct kind_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct kind_case *its, likeness, data_that_are_no_record_are_another_programs)
{
	struct announce_seen seen = see(its->type, its->data);
	cr_expect_eq(seen.node, its->node, "%s", its->data);
	announce_seen_finish(&seen);
}

struct like_case {
	int type;
	char wanted[128];
	char seen[128];
	int likeness;
};

ParameterizedTestParameters(likeness, an_instance_is_known_by_its_id_or_its_place)
{
	static struct like_case cases[] = {
		{ DIALECT_YARN, RECORD(",\"yarn:id\":\"c_1\""), RECORD(",\"yarn:id\":\"c_1\""),
			ANNOUNCE_LIKE_BYTES },
		{ DIALECT_YARN, RECORD(",\"yarn:id\":\"c_1\""), RECORD(", \"yarn:id\":\"c_1\""),
			ANNOUNCE_LIKE_RECORD },
		{ DIALECT_YARN, RECORD(",\"yarn:id\":\"c_1\""),
			RECORD(",\"yarn:id\":\"c_1\",\"description\":\"x\""), ANNOUNCE_LIKE_ID },
		{ DIALECT_YARN, RECORD(",\"yarn:id\":\"c_1\""), RECORD(",\"yarn:id\":\"c_2\""),
			ANNOUNCE_LIKE_NOTHING },
		{ DIALECT_YARN, RECORD(",\"yarn:id\":\"c_1\""), "host-a:80",
			ANNOUNCE_LIKE_NOTHING },
		{ DIALECT_REGISTRAR, HOST("10.0.0.1"), HOST("10.0.0.1"), ANNOUNCE_LIKE_BYTES },
		{ DIALECT_REGISTRAR, HOST("10.0.0.1"), "{\"type\":\"other\"}",
			ANNOUNCE_LIKE_NOTHING },
	};
	return cr_make_param_array(struct like_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct like_case *its, likeness, an_instance_is_known_by_its_id_or_its_place)
{
	struct announce_wanted wanted = want(its->type, its->wanted);
	struct announce_seen seen = see(its->type, its->seen);
	cr_expect_eq(announce_likeness_of(&wanted, &seen), its->likeness, "%s", its->seen);
	announce_wanted_finish(&wanted);
	/* Nothing is like a node that nobody has wanted yet. */
	cr_expect_eq(announce_likeness_of(&wanted, &seen), ANNOUNCE_LIKE_NOTHING);
	announce_seen_finish(&seen);
}

static bool has_id(enum dialect_type type, const char *data)
{
	struct announce_wanted wanted = want(type, data);
	bool has = wanted.has_id;
	announce_wanted_finish(&wanted);
	return has;
}

Test(likeness, a_record_alone_may_lack_an_id)
{
	cr_expect(has_id(DIALECT_YARN, RECORD(",\"yarn:id\":\"c_1\"")));
	cr_expect_not(has_id(DIALECT_YARN, RECORD("")));
	cr_expect(has_id(DIALECT_REGISTRAR, HOST("10.0.0.1")));
}

struct words_case {
	char data[128];
	char words[160];
};

ParameterizedTestParameters(likeness, another_clients_node_is_described)
{
	static struct words_case cases[] = {
		{ "", "another client's ephemeral node is at /app/c1" },
		{ "host-a:80", "/app/c1 holds another program's node whose data is not a record" },
		{ RECORD(", oops"), "an unreadable record is at /app/c1" },
		{ RECORD(""), "another record is at /app/c1 (no yarn:id)" },
		{ RECORD(",\"yarn:id\":\"c_2\",\"description\":\"two\""),
			"another record is at /app/c1 (yarn:id \"c_2\", \"two\")" },
	};
	return cr_make_param_array(struct words_case, cases, ARRAY_LEN(cases));
}

static void expect_words(enum dialect_type type, const char *data, const char *words)
{
	char why[256] = "";
	struct announce_seen seen = see(type, data);
	announce_describe_other(&seen, PATH, why, sizeof(why));
	cr_expect_str_eq(why, words);
	announce_seen_finish(&seen);
}

ParameterizedTest(struct words_case *its, likeness, another_clients_node_is_described)
{
	expect_words(DIALECT_YARN, its->data, its->words);
}

Test(likeness, an_instance_of_another_scheme_is_described)
{
	expect_words(DIALECT_REGISTRAR, HOST("10.0.0.2"), "another instance's node is at /app/c1");
}
