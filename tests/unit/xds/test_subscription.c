/*
 * Subscriptions, as a client's messages and the answers to them, over sets of an agent: state of
 * the world and delta, what is due when, and what is never sent.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/program/memory.h"
#include "xds/discovery.h"
#include "xds/protobuf.h"
#include "xds/subscription.h"

TestSuite(subscription, .timeout = 120);

static struct world *world;
static struct follow_quota *quota;
static int due;

/* ---- the agent: records, and the sets that are made of them ---- */

enum { RECORDS = 16, STREAMS = 256 };

static struct {
	char path[64];
	char host[16];
} records[RECORDS];

static struct {
	struct source_set *set;
	char sent[1024];
} followed[STREAMS];

void source_ask(struct source *source, struct source_set *set, const char *target)
{
	(void)source;
	size_t i = 0;
	while (followed[i].set) {
		cr_assert_lt(++i, STREAMS);
	}
	set->target = strdup(target);
	followed[i].set = set;
	*followed[i].sent = '\0';
}

void source_drop(struct source *source, struct source_set *set)
{
	(void)source;
	for (size_t i = 0; i < STREAMS; i++) {
		followed[i].set = followed[i].set == set ? NULL : followed[i].set;
	}
	free(set->target);
	set->target = NULL;
}

int source_trouble(const struct source *source, struct err *err)
{
	(void)source;
	(void)err;
	return 0;
}

#define NAME "prod.web.joe"
#define OTHER "beta.web.joe"
#define PLACE "/users/joe/web/prod/components/"
#define OTHER_PLACE "/users/joe/web/beta/components/"

static bool begins_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static void write_set(char out[1024], const char *target)
{
	bool names[2] = { false, false };
	bool named = begins_with(target, "/v1/set/" NAME "?");
	char *at = out + sprintf(out, "{\"members\":[");
	for (size_t i = 0; i < RECORDS; i++) {
		bool is_own = begins_with(records[i].path, PLACE);
		names[0] = names[0] || begins_with(records[i].path, OTHER_PLACE);
		names[1] = names[1] || is_own;
		if (named && is_own) {
			at += sprintf(at, "%s{\"host\":\"%s\",\"port\":80,\"weight\":1}",
				at[-1] == '[' ? "" : ",", records[i].host);
		}
	}
	sprintf(at, "],\"names\":[%s%s%s]}", names[0] ? "\"" OTHER "\"" : "",
		names[0] && names[1] ? "," : "", names[1] ? "\"" NAME "\"" : "");
}

static void turn(void)
{
	for (size_t i = 0; i < STREAMS; i++) {
		char set[1024];
		struct source_set *asked = followed[i].set;
		if (!asked) {
			continue;
		}
		write_set(set, asked->target);
		/* With min_instances = 1 an empty set takes no other one's place. */
		if (strcmp(set, followed[i].sent) != 0 &&
			!(*followed[i].sent && strstr(set, "\"members\":[]") &&
				!strstr(asked->target, "as=names"))) {
			strcpy(followed[i].sent, set);
			json_t *answer = json_pack("{s:o}", "set", json_loads(set, 0, NULL));
			asked->on_answer(asked->context, answer);
			json_decref(answer);
		}
	}
	world_update(world, clock_monotonic_ms());
}

static void put(const char *path, const char *host)
{
	size_t i = 0;
	while (*records[i].path && strcmp(records[i].path, path) != 0) {
		cr_assert_lt(++i, RECORDS);
	}
	snprintf(records[i].path, sizeof(records[i].path), "%s", path);
	snprintf(records[i].host, sizeof(records[i].host), "%s", host);
}

/* The records whose paths begin so. */
static void take_away(const char *path)
{
	for (size_t i = 0; i < RECORDS; i++) {
		if (begins_with(records[i].path, path)) {
			records[i].path[0] = '\0';
		}
	}
}

static void on_due(void *context)
{
	(void)context;
	due++;
}

static void begin(void)
{
	static const char *const serve[] = { "/users/**", NULL };
	const struct world_options options = {
		.domain = "berth", .zone = "", .min_instances = 1, .serve = serve
	};
	memory_init();
	world = world_create(&options);
	due = 0;
}

static void end(void)
{
	world_destroy(world);
}

/* ---- the client's side ---- */

static struct buffer request;

static void request_begin(bool delta, enum resource_type type)
{
	buffer_init(&request, 1 << 20);
	protobuf_text(&request, delta ? 2 : 4, resource_url(type));
}

static int request_send(struct subscription *subscription)
{
	struct err err = ERR_INIT;
	int code = subscription_take(subscription, request.data, request.len, &err);
	buffer_finish(&request);
	return code;
}

static void ask(struct subscription *subscription, enum resource_type type, const char *name,
	const char *nonce)
{
	request_begin(false, type);
	if (*name) {
		protobuf_text(&request, 3, name);
	}
	protobuf_text(&request, 5, nonce);
	cr_assert_eq(request_send(subscription), 0);
}

static void subscribe(struct subscription *subscription, enum resource_type type, const char *name)
{
	request_begin(true, type);
	if (*name) {
		protobuf_text(&request, 3, name);
	}
	cr_assert_eq(request_send(subscription), 0);
}

/* An answer, as "clusters 1: web=VERSION-OF-NONE db -gone": type, nonce, names. */
static char answer[4096];
static char version[64]; /* of the last resource: delta alone */
static size_t answer_bytes;

static void copy(char *out, size_t size, const struct protobuf_field *field)
{
	snprintf(out, size, "%.*s", (int)field->len, field->data);
}

/* The name of a resource: its first field, whatever its type. */
static void read_name(char *out, size_t size, const struct protobuf_field *any)
{
	struct protobuf_reader outer;
	struct protobuf_reader inner;
	struct protobuf_field field;
	protobuf_reader_init(&outer, any->data, any->len);
	while (protobuf_next(&outer, &field)) {
		struct protobuf_field name;
		if (field.number == 2) {
			protobuf_reader_init(&inner, field.data, field.len);
			cr_assert(protobuf_next(&inner, &name) && name.number == 1);
			copy(out, size, &name);
		}
	}
}

static void read_delta_name(char *out, size_t size, const struct protobuf_field *resource)
{
	struct protobuf_reader reader_of;
	struct protobuf_field field;
	protobuf_reader_init(&reader_of, resource->data, resource->len);
	while (protobuf_next(&reader_of, &field)) {
		if (field.number == 3) {
			copy(out, size, &field);
		} else if (field.number == 1) {
			copy(version, sizeof(version), &field);
		}
	}
}

static void read_answer(const struct buffer *message, bool delta)
{
	struct protobuf_reader fields;
	struct protobuf_field field;
	char names[2048] = "";
	char nonce[32] = "";
	const char *type = "";
	protobuf_reader_init(&fields, message->data, message->len);
	while (protobuf_next(&fields, &field)) {
		char text[300] = "";
		size_t used = strlen(names);
		if (field.number == 2) {
			(delta ? read_delta_name : read_name)(text, sizeof(text), &field);
			snprintf(names + used, sizeof(names) - used, " %s", text);
		} else if (field.number == 6) {
			copy(text, sizeof(text), &field);
			snprintf(names + used, sizeof(names) - used, " -%s", text);
		} else if (field.number == 5) {
			copy(nonce, sizeof(nonce), &field);
		} else if (field.number == 4) {
			type = resource_word(resource_of_url(field.data, field.len));
		}
	}
	cr_assert_not(fields.bad);
	snprintf(answer, sizeof(answer), "%s %s:%s", type, nonce, names);
}

/* The next answer; "" when nothing is due. */
static const char *next(struct subscription *subscription, bool delta)
{
	struct buffer message;
	buffer_init(&message, 1 << 24);
	answer[0] = '\0';
	if (subscription_next(subscription, &message)) {
		read_answer(&message, delta);
	}
	answer_bytes = message.len;
	buffer_finish(&message);
	return answer;
}

/* The next answer, for which the registry may have to be read first. */
static const char *await(struct subscription *subscription, bool delta)
{
	while (!*next(subscription, delta)) {
		turn();
	}
	return answer;
}

static struct subscription *open_stream(bool delta)
{
	return subscription_create(world, quota, delta, on_due, NULL);
}

/* Whether what the test has asked for has been read. */
static bool world_known(void)
{
	const struct follow_owner owner = { .on_change = NULL };
	struct follow_user user = { .owner = &owner };
	cr_assert(follow_take(world, &user, "prod.web.joe", strlen("prod.web.joe")));
	bool known = follow_known(user.follow);
	follow_release(&user, 0);
	return known;
}

/* ---- state of the world ---- */

Test(subscription, a_name_gets_all_it_needs_as_it_asks, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	put(PLACE "c1", "10.0.0.1");
	ask(stream, RESOURCE_LISTENER, NAME, "");
	cr_assert_str_eq(await(stream, false), "listeners 1: " NAME);
	ask(stream, RESOURCE_CLUSTER, NAME, "");
	cr_assert_str_eq(await(stream, false), "clusters 1: " NAME);
	ask(stream, RESOURCE_ENDPOINTS, NAME, "");
	cr_assert_str_eq(await(stream, false), "endpoints 1: " NAME);
	ask(stream, RESOURCE_ROUTE, NAME, "");
	cr_assert_str_eq(await(stream, false), "routes 1: " NAME);
	subscription_destroy(stream);
}

Test(subscription, clusters_come_before_endpoints_and_these_before_listeners, .init = begin,
	.fini = end)
{
	struct subscription *stream = open_stream(false);
	ask(stream, RESOURCE_LISTENER, NAME, "");
	ask(stream, RESOURCE_ENDPOINTS, NAME, "");
	ask(stream, RESOURCE_CLUSTER, NAME, "");
	while (!world_known()) {
		turn();
	}
	cr_assert_str_eq(next(stream, false), "clusters 1: " NAME);
	cr_assert_str_eq(next(stream, false), "endpoints 1: " NAME);
	cr_assert_str_eq(next(stream, false), "listeners 1: " NAME);
	cr_assert_str_eq(next(stream, false), "");
	subscription_destroy(stream);
}

/* Without an answer of the registry the endpoints wait; nothing else depends on it. */
Test(subscription, endpoints_alone_wait_until_they_are_known, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	request_begin(false, RESOURCE_CLUSTER);
	protobuf_text(&request, 3, "a.b.c");
	protobuf_text(&request, 3, "b.b.c");
	cr_assert_eq(request_send(stream), 0);
	ask(stream, RESOURCE_ENDPOINTS, "a.b.c", "");
	cr_assert_str_eq(next(stream, false), "clusters 1: a.b.c b.b.c");
	cr_assert_str_eq(next(stream, false), "");
	cr_assert_str_eq(await(stream, false), "endpoints 1: a.b.c");
	subscription_destroy(stream);
}

Test(subscription, a_change_sends_endpoints_alone_and_an_ack_nothing, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	put(PLACE "c1", "10.0.0.1");
	ask(stream, RESOURCE_CLUSTER, NAME, "");
	await(stream, false);
	ask(stream, RESOURCE_ENDPOINTS, NAME, "");
	await(stream, false);
	ask(stream, RESOURCE_CLUSTER, NAME, "1");
	ask(stream, RESOURCE_ENDPOINTS, NAME, "1");
	cr_assert_str_eq(next(stream, false), "");
	put(PLACE "c2", "10.0.0.2");
	cr_assert_str_eq(await(stream, false), "endpoints 2: " NAME);
	cr_assert_str_eq(next(stream, false), "");
	subscription_destroy(stream);
}

Test(subscription, clusters_are_always_all_listed_and_endpoints_are_not, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	for (int i = 0; i < 2; i++) {
		enum resource_type type = i ? RESOURCE_ENDPOINTS : RESOURCE_CLUSTER;
		ask(stream, type, "a.b.c", "");
		await(stream, false);
		request_begin(false, type);
		protobuf_text(&request, 3, "a.b.c");
		protobuf_text(&request, 3, "b.b.c");
		protobuf_text(&request, 5, "1");
		cr_assert_eq(request_send(stream), 0);
		cr_assert_str_eq(
			await(stream, false), i ? "endpoints 2: b.b.c" : "clusters 2: a.b.c b.b.c");
	}
	subscription_destroy(stream);
}

Test(subscription, names_of_an_older_answers_ack_are_overtaken, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	put(PLACE "c1", "10.0.0.1");
	ask(stream, RESOURCE_ENDPOINTS, NAME, "");
	await(stream, false);
	put(PLACE "c2", "10.0.0.2");
	cr_assert_str_eq(await(stream, false), "endpoints 2: " NAME);
	ask(stream, RESOURCE_ENDPOINTS, "other.b.c", "1");
	put(PLACE "c3", "10.0.0.3");
	cr_assert_str_eq(await(stream, false), "endpoints 3: " NAME);
	ask(stream, RESOURCE_ENDPOINTS, "other.b.c", "3");
	cr_assert_str_eq(await(stream, false), "endpoints 4: other.b.c");
	subscription_destroy(stream);
}

Test(subscription, a_name_that_is_dropped_gets_nothing_more, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	struct subscription *other = open_stream(false);
	put(PLACE "c1", "10.0.0.1");
	ask(stream, RESOURCE_ENDPOINTS, NAME, "");
	await(stream, false);
	ask(other, RESOURCE_ENDPOINTS, NAME, "");
	await(other, false);
	ask(stream, RESOURCE_ENDPOINTS, "", "1");
	put(PLACE "c2", "10.0.0.2");
	cr_assert_str_eq(await(other, false), "endpoints 2: " NAME);
	cr_assert_str_eq(next(stream, false), "");
	subscription_destroy(stream);
	subscription_destroy(other);
}

Test(subscription, a_refused_answer_is_not_sent_again_before_a_change, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	uint64_t before = subscription_refusals();
	put(PLACE "c1", "10.0.0.1");
	ask(stream, RESOURCE_ENDPOINTS, NAME, "");
	await(stream, false);
	request_begin(false, RESOURCE_ENDPOINTS);
	protobuf_text(&request, 3, NAME);
	protobuf_text(&request, 5, "1");
	size_t error = protobuf_begin(&request, 6);
	protobuf_text(&request, 2, "not good");
	protobuf_end(&request, error);
	cr_assert_eq(request_send(stream), 0);
	turn();
	cr_assert_str_eq(next(stream, false), "");
	cr_assert_eq(subscription_refusals(), before + 1);
	put(PLACE "c2", "10.0.0.2");
	cr_assert_str_eq(await(stream, false), "endpoints 2: " NAME);
	subscription_destroy(stream);
}

/* A client would wait 15 s for what no server knows. */
Test(subscription, absent_and_impossible_names_are_answered_at_once, .init = begin, .fini = end)
{
	static const char *const names[] = { "not.there.joe", "Not_Possible", "/Odd//path" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct subscription *stream = open_stream(false);
		char expected[64];
		ask(stream, RESOURCE_LISTENER, names[i], "");
		snprintf(expected, sizeof(expected), "listeners 1: %s", names[i]);
		cr_assert_str_eq(await(stream, false), expected);
		subscription_destroy(stream);
	}
}

Test(subscription, a_set_stays_when_its_last_member_goes, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	put(PLACE "c1", "10.0.0.1");
	put(PLACE "c2", "10.0.0.2");
	ask(stream, RESOURCE_ENDPOINTS, NAME, "");
	await(stream, false);
	take_away(PLACE "c2");
	cr_assert_str_eq(await(stream, false), "endpoints 2: " NAME);
	take_away(PLACE "c1");
	put("/users/joe/web/beta/components/c1", "10.0.0.9");
	struct subscription *other = open_stream(false);
	ask(other, RESOURCE_ENDPOINTS, "beta.web.joe", "");
	await(other, false);
	cr_assert_str_eq(next(stream, false), "");
	subscription_destroy(stream);
	subscription_destroy(other);
}

/* ---- wildcards ---- */

Test(subscription, a_client_that_names_nothing_gets_all_that_is_served, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	put(PLACE "c1", "10.0.0.1");
	put(PLACE "c2", "10.0.0.2");
	put("/services/db", "10.0.0.3");
	ask(stream, RESOURCE_CLUSTER, "", "");
	cr_assert_str_eq(await(stream, false), "clusters 1: " NAME);
	put("/users/joe/web/beta/components/c1", "10.0.0.9");
	cr_assert_str_eq(await(stream, false), "clusters 2: beta.web.joe " NAME);
	take_away("/users/joe/web/beta");
	cr_assert_str_eq(await(stream, false), "clusters 3: " NAME);
	subscription_destroy(stream);
}

Test(subscription, all_of_nothing_is_an_answer, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	ask(stream, RESOURCE_CLUSTER, "", "");
	cr_assert_str_eq(await(stream, false), "clusters 1:");
	subscription_destroy(stream);
	stream = open_stream(true);
	subscribe(stream, RESOURCE_CLUSTER, "*");
	cr_assert_str_eq(await(stream, true), "clusters 1:");
	subscription_destroy(stream);
}

/* ---- delta ---- */

Test(subscription, delta_sends_what_is_new_and_what_is_gone, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(true);
	put(PLACE "c1", "10.0.0.1");
	subscribe(stream, RESOURCE_CLUSTER, "");
	cr_assert_str_eq(await(stream, true), "clusters 1: " NAME);
	put("/users/joe/web/beta/components/c1", "10.0.0.9");
	cr_assert_str_eq(await(stream, true), "clusters 2: beta.web.joe");
	take_away("/users/joe/web/beta");
	cr_assert_str_eq(await(stream, true), "clusters 3: -beta.web.joe");
	subscription_destroy(stream);
}

Test(subscription, delta_keeps_what_the_client_has, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(true);
	put(PLACE "c1", "10.0.0.1");
	subscribe(stream, RESOURCE_ENDPOINTS, NAME);
	await(stream, true);
	subscription_destroy(stream);
	stream = open_stream(true);
	request_begin(true, RESOURCE_ENDPOINTS);
	protobuf_text(&request, 3, NAME);
	protobuf_text(&request, 3, "other.b.c");
	size_t held = protobuf_begin(&request, 5);
	protobuf_text(&request, 1, NAME);
	protobuf_text(&request, 2, version);
	protobuf_end(&request, held);
	cr_assert_eq(request_send(stream), 0);
	cr_assert_str_eq(await(stream, true), "endpoints 1: other.b.c");
	put(PLACE "c2", "10.0.0.2");
	cr_assert_str_eq(await(stream, true), "endpoints 2: " NAME);
	subscription_destroy(stream);
}

Test(subscription, delta_sends_again_what_is_subscribed_again, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(true);
	subscribe(stream, RESOURCE_ENDPOINTS, NAME);
	cr_assert_str_eq(await(stream, true), "endpoints 1: " NAME);
	subscribe(stream, RESOURCE_ENDPOINTS, NAME);
	cr_assert_str_eq(await(stream, true), "endpoints 2: " NAME);
	request_begin(true, RESOURCE_ENDPOINTS);
	protobuf_text(&request, 4, NAME);
	cr_assert_eq(request_send(stream), 0);
	put(PLACE "c2", "10.0.0.2");
	subscribe(stream, RESOURCE_ENDPOINTS, "other.b.c");
	cr_assert_str_eq(await(stream, true), "endpoints 3: other.b.c");
	subscription_destroy(stream);
}

/* ---- bounds ---- */

Test(subscription, a_change_is_encoded_once_for_a_thousand_subscribers, .init = begin, .fini = end)
{
	enum { SUBSCRIBERS = 1000 };
	static struct subscription *streams[SUBSCRIBERS];
	put(PLACE "c1", "10.0.0.1");
	for (int i = 0; i < SUBSCRIBERS; i++) {
		streams[i] = open_stream(i % 2);
		if (i % 2) {
			subscribe(streams[i], RESOURCE_ENDPOINTS, NAME);
		} else {
			ask(streams[i], RESOURCE_ENDPOINTS, NAME, "");
		}
		await(streams[i], i % 2);
	}
	cr_assert_eq(world_counts(world).encodings, 1);
	cr_assert_eq(world_counts(world).names, 1);
	put(PLACE "c2", "10.0.0.2");
	for (int i = 0; i < SUBSCRIBERS; i++) {
		await(streams[i], i % 2);
	}
	cr_assert_eq(world_counts(world).encodings, 2);
	for (int i = 0; i < SUBSCRIBERS; i++) {
		subscription_destroy(streams[i]);
	}
}

Test(subscription, refuses_what_is_no_request, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	struct err err = ERR_INIT;
	cr_assert_eq(subscription_take(stream, "\x0a\x05", 2, &err), BERTH_FAILED);
	request_begin(false, RESOURCE_CLUSTER);
	protobuf_text(&request, 3, "");
	cr_assert_eq(request_send(stream), BERTH_LIMIT_EXCEEDED);
	request_begin(false, RESOURCE_CLUSTER);
	protobuf_text(&request, 3, "a\nb");
	cr_assert_eq(request_send(stream), BERTH_LIMIT_EXCEEDED);
	request_begin(false, RESOURCE_CLUSTER);
	for (int i = 0; i <= DISCOVERY_NAMES_MAX; i++) {
		protobuf_text(&request, 3, "a");
	}
	cr_assert_eq(request_send(stream), BERTH_LIMIT_EXCEEDED);
	subscription_destroy(stream);
}

Test(subscription, a_type_that_is_not_served_gets_nothing, .init = begin, .fini = end)
{
	struct subscription *stream = open_stream(false);
	buffer_init(&request, 1000);
	protobuf_text(&request, 4, "type.googleapis.com/envoy.service.runtime.v3.Runtime");
	cr_assert_eq(request_send(stream), 0);
	cr_assert_str_eq(next(stream, false), "");
	subscription_destroy(stream);
}
