/* An answer as JSON and as lines, part by part. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/names/write.h"
#include "lib/base/array.h"

TestSuite(names_write);

#define TEXT(text) (char *)(uintptr_t)text

static struct names_address addresses[2];
static struct names_target targets[] = {
	{ .priority = 1, .weight = 2, .port = 80, .name = TEXT("a.berth") },
	{ .priority = 0, .weight = 0, .port = 443, .name = TEXT("b.org") },
};
static char *texts[] = { TEXT("k=v"), TEXT("bad=\342\200\256"), TEXT("l=w") };
static char *pointers[] = { TEXT("c1.berth"), TEXT("c2.berth") };
static char *paths[] = { TEXT("/a"), TEXT("/b") };

/* An answer with something in every part; an evaluated one has less. */
static const struct names_answer everything = { .status = NAMES_FOUND,
	.addresses = addresses,
	.address_count = 2,
	.alias = TEXT("alias.org"),
	.targets = targets,
	.target_count = 2,
	.texts = texts,
	.text_count = 3,
	.pointers = pointers,
	.pointer_count = 2,
	.paths = paths,
	.path_count = 2 };

static void fill(void)
{
	addresses[0].family = AF_INET;
	inet_pton(AF_INET, "10.0.0.1", addresses[0].bytes);
	addresses[1].family = AF_INET6;
	inet_pton(AF_INET6, "2001:db8::1", addresses[1].bytes);
	targets[0].address = addresses[0];
}

#define HEAD "{\"age\":1.5,\"alias\":\"alias.org\",\"name\":\"n.berth\",\"paths\":[\"/a\",\"/b\"],"
#define TAIL "\"stale\":true,\"ttl\":7}"

static const struct {
	unsigned parts;
	const char *json; /* members that not every row has: before "paths", behind "paths" */
	const char *lines;
} rows[] = {
	{ NAMES_PART_A,
		"{\"addresses\":[\"10.0.0.1\"],\"age\":1.5,\"alias\":\"alias.org\","
		"\"name\":\"n.berth\",\"paths\":[\"/a\",\"/b\"]," TAIL,
		"A 10.0.0.1\nCNAME alias.org\n" },
	{ NAMES_PART_AAAA,
		"{\"addresses\":[\"2001:db8::1\"],\"age\":1.5,\"alias\":\"alias.org\","
		"\"name\":\"n.berth\",\"paths\":[\"/a\",\"/b\"]," TAIL,
		"AAAA 2001:db8::1\nCNAME alias.org\n" },
	{ NAMES_PART_SRV,
		HEAD "\"stale\":true,\"targets\":[{\"address\":\"10.0.0.1\",\"port\":80,"
		     "\"priority\":1,\"target\":\"a.berth\",\"weight\":2},{\"port\":443,"
		     "\"priority\":0,\"target\":\"b.org\",\"weight\":0}],\"ttl\":7}",
		"CNAME alias.org\nSRV 1 2 80 a.berth\nSRV 0 0 443 b.org\n" },
	{ NAMES_PART_TXT,
		HEAD "\"stale\":true,\"texts\":[\"k=v\",\"bad=\342\200\256\",\"l=w\"],\"ttl\":7}",
		"CNAME alias.org\nTXT k=v\nTXT l=w\n" },
	{ NAMES_PART_PTR,
		"{\"age\":1.5,\"alias\":\"alias.org\",\"name\":\"n.berth\","
		"\"names\":[\"c1.berth\",\"c2.berth\"],\"paths\":[\"/a\",\"/b\"]," TAIL,
		"CNAME alias.org\nPTR c1.berth\nPTR c2.berth\n" },
	{ NAMES_PART_ALL,
		"{\"addresses\":[\"10.0.0.1\",\"2001:db8::1\"],\"age\":1.5,\"alias\":\"alias.org\","
		"\"name\":\"n.berth\",\"names\":[\"c1.berth\",\"c2.berth\"],"
		"\"paths\":[\"/a\",\"/b\"],\"stale\":true,\"targets\":[{\"address\":\"10.0.0.1\","
		"\"port\":80,\"priority\":1,\"target\":\"a.berth\",\"weight\":2},{\"port\":443,"
		"\"priority\":0,\"target\":\"b.org\",\"weight\":0}],"
		"\"texts\":[\"k=v\",\"bad=\342\200\256\",\"l=w\"],\"ttl\":7}",
		"A 10.0.0.1\nAAAA 2001:db8::1\nCNAME alias.org\nSRV 1 2 80 a.berth\n"
		"SRV 0 0 443 b.org\nTXT k=v\nTXT l=w\nPTR c1.berth\nPTR c2.berth\n" },
};

static void expect(
	const struct names_view *view, unsigned parts, const char *json_text, const char *lines)
{
	struct buffer out;
	buffer_init(&out, 1024);
	names_write_lines(view, parts, NULL, &out);
	cr_expect_str_eq(buffer_text(&out), lines);
	buffer_finish(&out);
	json_t *json = names_json(view, "n.berth", parts, 7, NULL);
	char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	cr_expect_str_eq(text, json_text);
	free(text);
	json_decref(json);
}

Test(names_write, each_part_is_asked_for_alone, .init = fill)
{
	const struct names_view view = { &everything, true, 1500, false };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		expect(&view, rows[i].parts, rows[i].json, rows[i].lines);
	}
}

Test(names_write, an_answer_with_nothing_has_no_empty_members)
{
	const struct names_answer nothing = { .status = NAMES_ABSENT };
	const struct names_view view = { &nothing, false, 0, false };
	expect(&view, NAMES_PART_ALL,
		"{\"age\":0.0,\"name\":\"n.berth\",\"paths\":[],\"stale\":false,\"ttl\":7}", "");
}

Test(names_write, parts_have_the_names_of_record_types)
{
	static const struct {
		const char *type;
		unsigned part;
	} types[] = { { "A", NAMES_PART_A }, { "a", NAMES_PART_A }, { "AAAA", NAMES_PART_AAAA },
		{ "aaaa", NAMES_PART_AAAA }, { "srv", NAMES_PART_SRV }, { "Txt", NAMES_PART_TXT },
		{ "PTR", NAMES_PART_PTR }, { "any", NAMES_PART_ALL }, { "AA", 0 }, { "", 0 },
		{ "CNAME", 0 }, { "MX", 0 } };
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		cr_expect_eq(names_part(types[i].type), types[i].part, "%s", types[i].type);
	}
}
