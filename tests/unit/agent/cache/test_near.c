/* Answers by nearness: the addresses of all records below a path, the nearest first. */

#include <criterion/criterion.h>

#include <jansson.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

static void put(struct cache_stage *stage, const char *path, const char *zone, const char *name)
{
	char text[400];
	snprintf(text, sizeof(text),
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"x\",\"addressType\":"
		"\"uri\",\"protocolType\":\"p\",\"addresses\":[{\"uri\":\"http://%s\"},"
		"{\"uri\":\"http://%s-too\"}]}],\"internal\":[],\"berth:zone\":\"%s\"}",
		name, name, zone);
	memory_put(stage->registry, path, text);
}

/* From the farthest to the nearest, two addresses each; and a node without any. */
static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	put(stage, "/s", "us/b", "own");
	put(stage, "/s/a", "us/c", "far");
	memory_put(stage->registry, "/s/b", "");
	put(stage, "/s/c", "eu/b", "region");
	put(stage, "/s/d", "eu/a", "zone");
	put(stage, "/s/e", "eu/b", "other");
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_near, name, struct cache_stage *, stage,                                 \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

static const char *look(
	struct cache_stage *stage, enum cache_answer_kind kind, const struct cache_filter *filter)
{
	static struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/s", kind, filter), 0);
	return outcome.text;
}

/* " NAME:TIER" of each address of an answer of endpoints; "-" for no tier. */
static const char *endpoints(struct cache_stage *stage, const struct cache_filter *filter)
{
	static char seen[1000];
	size_t index;
	json_t *item;
	const char *text = look(stage, CACHE_ENDPOINTS, filter);
	json_t *all = json_loads(text, 0, NULL);
	cr_assert_not_null(all, "%s", text);
	seen[0] = '\0';
	json_array_foreach (all, index, item) {
		const json_t *tier = json_object_get(item, "tier");
		const char *uri = json_string_value(
			json_object_get(json_object_get(item, "address"), "uri"));
		size_t len = strlen(seen);
		snprintf(seen + len, sizeof(seen) - len, " %s:", uri + strlen("http://"));
		len = strlen(seen);
		snprintf(seen + len, sizeof(seen) - len, tier ? "%d" : "-",
			(int)json_integer_value(tier));
	}
	json_decref(all);
	return seen;
}

STAGED(without_nearness_endpoints_come_in_the_order_of_their_paths_and_without_tiers)
{
	cr_expect_str_eq(endpoints(stage, &(struct cache_filter){ .text = false }),
		" own:- own-too:- far:- far-too:- region:- region-too:- zone:- zone-too:-"
		" other:- other-too:-");
}

STAGED(endpoints_come_from_the_nearest_to_the_farthest_and_else_in_the_order_of_their_paths)
{
	cr_expect_str_eq(endpoints(stage, &(struct cache_filter){ .near = "eu/a" }),
		" zone:0 zone-too:0 region:1 region-too:1 other:1 other-too:1 own:2 own-too:2"
		" far:2 far-too:2");
	cr_expect_str_eq(endpoints(stage, &(struct cache_filter){ .near = "us/b" }),
		" own:0 own-too:0 far:1 far-too:1 region:2 region-too:2 zone:2 zone-too:2"
		" other:2 other-too:2");
}

STAGED(a_path_without_any_address_has_an_empty_answer)
{
	static const struct cache_filter none = { .near = "eu/a", .api = "other" };
	cr_expect_str_eq(look(stage, CACHE_ENDPOINTS, &none), "[]\n");
	cr_expect_str_eq(look(stage, CACHE_TARGETS, &none), "[]\n");
}

STAGED(lines_of_text_come_from_the_nearest_to_the_farthest)
{
	cr_expect_str_eq(look(stage, CACHE_ENDPOINTS,
				 &(struct cache_filter){ .near = "eu/a", .text = true }),
		"http://zone\nhttp://zone-too\nhttp://region\nhttp://region-too\n"
		"http://other\nhttp://other-too\nhttp://own\nhttp://own-too\n"
		"http://far\nhttp://far-too\n");
}

/* " NAME:PORT:TIER" of each group, which has one address. */
static const char *targets(struct cache_stage *stage, const struct cache_filter *filter)
{
	static char seen[1000];
	size_t index;
	json_t *item;
	const char *text = look(stage, CACHE_TARGETS, filter);
	json_t *all = json_loads(text, 0, NULL);
	cr_assert_not_null(all, "%s", text);
	seen[0] = '\0';
	json_array_foreach (all, index, item) {
		const json_t *labels = json_object_get(item, "labels");
		const char *tier = json_string_value(json_object_get(labels, "__meta_berth_tier"));
		size_t len = strlen(seen);
		snprintf(seen + len, sizeof(seen) - len, " %s:%s",
			json_string_value(json_array_get(json_object_get(item, "targets"), 0)),
			tier ? tier : "-");
	}
	json_decref(all);
	return seen;
}

STAGED(targets_come_from_the_nearest_to_the_farthest)
{
	cr_expect_str_eq(targets(stage, NULL),
		" own:80:- own-too:80:- far:80:- far-too:80:- region:80:- region-too:80:-"
		" zone:80:- zone-too:80:- other:80:- other-too:80:-");
	cr_expect_str_eq(targets(stage, &(struct cache_filter){ .near = "eu/a" }),
		" zone:80:0 zone-too:80:0 region:80:1 region-too:80:1 other:80:1 other-too:80:1"
		" own:80:2 own-too:80:2 far:80:2 far-too:80:2");
}

/* A directory that is written in several slices is ordered as a whole. */
STAGED(a_large_directory_is_ordered_as_a_whole)
{
	enum { CHILDREN = 300 };
	struct cache_outcome outcome;
	const struct cache_query query = { .path = "/d",
		.kind = CACHE_ENDPOINTS,
		.filter = &(struct cache_filter){ .near = "eu/a", .text = true },
		.max_age_ms = -1 };
	memory_put(stage->registry, "/d", "");
	for (int i = 0; i < CHILDREN; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/d/n%03d", i);
		put(stage, path, i == CHILDREN - 1 ? "eu/a" : i == 0 ? "us" : "eu/b", path + 1);
	}
	cr_assert_eq(cache_stage_ask_query(stage, &outcome, &query, ""), CACHE_WAITING);
	for (int i = 0; i < 100 && outcome.calls == 0; i++) {
		cache_stage_turn(stage);
	}
	cr_assert_eq(outcome.calls, 1);
	const struct cache_answer *answer = cache_find(stage->cache, &query);
	cr_assert_not_null(answer);
	static const char first[] = "http://d/n299\nhttp://d/n299-too\nhttp://d/n001\n";
	static const char last[] = "http://d/n298-too\nhttp://d/n000\nhttp://d/n000-too\n";
	cr_assert_gt(answer->len, sizeof(first) + sizeof(last));
	cr_expect_eq(memcmp(answer->body, first, sizeof(first) - 1), 0, "%.100s", answer->body);
	cr_expect_str_eq(answer->body + answer->len - (sizeof(last) - 1), last);
}
