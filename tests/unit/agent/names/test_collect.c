/* From records to addresses, targets and texts. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/names/internal.h"
#include "lib/base/array.h"
#include "tests/support/names_line.h"

TestSuite(names_collect);

/* An endpoint for each {api, protocol, addresses}. */
#define A(host, port) "{\"host\":\"" host "\",\"port\":\"" port "\"}"
#define ENDPOINT(api, protocol, addresses)                                                         \
	"{\"api\":\"" api "\",\"addressType\":\"host/port\",\"protocol\":\"" protocol              \
	"\",\"addresses\":[" addresses "]}"
#define AT(addresses) ENDPOINT("x", "y", addresses)
#define RECORD(attributes, endpoints)                                                              \
	"{\"type\":\"JSONServiceRecord\"," attributes "\"external\":[" endpoints                   \
	"],\"internal\":[]}"

#define L60 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static struct record *read_record(const char *text)
{
	struct record *record;
	struct err err = ERR_INIT;
	cr_assert_eq(record_decode(&record, text, strlen(text), &err), 0, "%s: %s", text, err.msg);
	return record;
}

static void collect_one(struct names_collector *collector, const char *path, const char *text)
{
	struct record *record = read_record(text);
	names_collect(collector, path, record);
	record_free(record);
}

static const char *line_of(const char *path, const char *text, const char *service)
{
	struct names_answer answer = { .status = NAMES_FOUND };
	struct names_collector collector = { &answer, "berth", service, NULL, false };
	collect_one(&collector, path, text);
	names_collect_end(&collector);
	const char *line = names_line(&answer);
	cr_expect_eq(answer.path_count, 1);
	cr_expect_str_eq(answer.paths[0], path);
	names_answer_finish(&answer);
	return line;
}

/* ---- addresses and targets ---- */

Test(names_collect, equal_targets_of_several_records_are_one)
{
	static const struct {
		const char *attributes; /* of the second record */
		const char *host;
		const char *line;
	} others[] = {
		{ "", "h", "found =h" },
		{ "", "i", "found [0 1 1 h] [0 1 1 i]" },
	};
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		struct names_answer answer = { .status = NAMES_FOUND };
		struct names_collector collector = { &answer, "berth", NULL, NULL, false };
		char text[500];
		snprintf(text, sizeof(text), RECORD("%s", AT(A("%s", "1"))), others[i].attributes,
			others[i].host);
		collect_one(&collector, "/a/1", RECORD("", AT(A("h", "1"))));
		collect_one(&collector, "/a/2", text);
		names_collect_end(&collector);
		cr_expect_str_eq(names_line(&answer), others[i].line, "%s", names_line(&answer));
		cr_expect_eq(answer.path_count, 2);
		names_answer_finish(&answer);
	}
}

Test(names_collect, targets_differ_in_weight_priority_port_or_name)
{
	static const struct {
		const char *attributes;
		const char *host;
		const char *port;
		const char *line; /* behind that of the first record, h:1 */
	} others[] = {
		{ "", "h", "1", "" },
		{ "", "H", "1", "" },
		{ "\"weight\":1,\"priority\":0,", "h", "1", "" },
		{ "\"weight\":0,", "h", "1", " [0 0 1 h]" },
		{ "\"priority\":1,", "h", "1", " [1 1 1 h]" },
		{ "", "h", "2", " [0 1 2 h]" },
		{ "", "i", "1", " [0 1 1 i]" },
	};
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		struct names_answer answer = { .status = NAMES_FOUND };
		struct names_collector collector = { &answer, "berth", "y", NULL, false };
		char text[500];
		char line[200];
		snprintf(text, sizeof(text), RECORD("%s", AT(A("%s", "%s"))), others[i].attributes,
			others[i].host, others[i].port);
		snprintf(line, sizeof(line), "found [0 1 1 h]%s", others[i].line);
		collect_one(&collector, "/a/1", RECORD("", AT(A("h", "1"))));
		collect_one(&collector, "/a/2", text);
		names_collect_end(&collector);
		cr_expect_str_eq(names_line(&answer), line, "%s", names_line(&answer));
		names_answer_finish(&answer);
	}
}

Test(names_collect, weight_and_priority_are_numbers_of_16_bits_and_else_1_and_0)
{
	static const struct {
		const char *attribute;
		unsigned priority;
		unsigned weight;
	} numbers[] = { { "0", 0, 0 }, { "7", 7, 7 }, { "65535", 65535, 65535 }, { "65536", 0, 1 },
		{ "\"7\"", 7, 7 }, { "\"7x\"", 0, 1 }, { "\"\"", 0, 1 } };
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		char text[500];
		char line[100];
		snprintf(text, sizeof(text),
			RECORD("\"weight\":%s,\"priority\":%s,", AT(A("h", "1") "," A("i", "1"))),
			numbers[i].attribute, numbers[i].attribute);
		snprintf(line, sizeof(line), "found [%u %u 1 h] [%u %u 1 i]", numbers[i].priority,
			numbers[i].weight, numbers[i].priority, numbers[i].weight);
		cr_expect_str_eq(line_of("/services/s", text, NULL), line, "%s", text);
	}
}

/* The address's label is left out as long as it is not needed. */
Test(names_collect, a_target_whose_name_dns_cannot_hold_is_left_out)
{
	static const struct {
		const char *path; /* of the length that its name has without "berth" */
		size_t name_len;
		bool many; /* its address needs a label of 12 bytes */
		bool is_there;
	} paths[] = {
		{ "/" L60 "/" L60 "/" L60 "/" L60 "/aaa", 253, false, true },
		{ "/" L60 "/" L60 "/" L60 "/" L60 "/aaaa", 254, false, false },
		{ "/" L60 "/" L60 "/" L60 "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			241, true, true },
		{ "/" L60 "/" L60 "/" L60 "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			242, true, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		const char *line = line_of(paths[i].path,
			paths[i].many ? RECORD("", AT(A("10.0.0.1", "1") "," A("10.0.0.2", "")))
				      : RECORD("", AT(A("10.0.0.1", "1"))),
			NULL);
		cr_expect_eq(strlen(paths[i].path) + strlen("berth"), paths[i].name_len);
		cr_expect_eq(strchr(line, '[') != NULL, paths[i].is_there, "%s", line);
	}
}

/* ---- services ---- */

/* ---- texts ---- */

Test(names_collect, a_text_has_4096_bytes_at_most)
{
	static const size_t lens[] = { 1, 4096 - sizeof("description"),
		4097 - sizeof("description") };
	for (size_t i = 0; i < 3; i++) {
		char value[5000] = "";
		char text[6000];
		struct names_answer answer = { .status = NAMES_FOUND };
		struct names_collector collector = { &answer, "berth", NULL, NULL, false };
		memset(value, 'v', lens[i]);
		snprintf(text, sizeof(text), RECORD("\"description\":\"%s\",", ""), value);
		collect_one(&collector, "/a", text);
		cr_assert_eq(answer.text_count, i < 2, "%zu bytes", lens[i]);
		if (i < 2) {
			cr_expect_eq(strncmp(answer.texts[0], "description=", 12), 0);
			cr_expect_str_eq(answer.texts[0] + 12, value);
		}
		names_answer_finish(&answer);
	}
}

/* ---- the way back, from an address to a name ---- */

static char deep[NAMES_NAME_BYTES + 40];

/* /users/aaa…/c/i/components/n, whose parent has this many bytes. */
static const char *path_with_parent(size_t len)
{
	size_t room = len - strlen("/users/") - strlen("/c/i/components");
	char user[sizeof(deep)];
	memset(user, 'a', room);
	user[room] = '\0';
	snprintf(deep, sizeof(deep), "/users/%s/c/i/components/n", user);
	return deep;
}

Test(names_collect, an_endpoint_s_address_is_a_component_s_own)
{
	static const struct {
		const char *path;
		bool claims;
	} paths[] = {
		{ "/users/u/c/i/components/n", true },
		{ "/users/u/services/c/i/components/n", true },
		{ "/users/u/services/c/components/n", true },
		{ "/users/services/c/i/components/n", true },
		{ "/users/u/other/c/i/components/n", false },
		{ "/users/u/servicesx/c/i/components/n", false },
		{ "/users/u/services/c/i/x/components/n", false },
		{ "/users/services/u/c/i/components/n", false },
		{ "/users/u/c/i/parts/n", false },
		{ "/users/u/services/c/i/parts/n", false },
		{ "/users/u/c/components/n", false },
		{ "/users/u/c/i/components", false },
		{ "/users/u/c/i/components/n/m", false },
		{ "/users", false },
		{ "/users/u", false },
		{ "/usersx/u/c/i/components/n", false },
		{ "/a/u/c/i/components/n", false },
		{ "/services/s", false },
	};
	struct record *record = read_record(RECORD("", AT(A("10.0.0.1", "1"))));
	struct names_address address;
	struct names_address other;
	cr_assert(names_read_address(&address, "10.0.0.1"));
	cr_assert(names_read_address(&other, "10.0.0.2"));
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		cr_expect_eq(names_record_claims(paths[i].path, record, &address), paths[i].claims,
			"%s", paths[i].path);
		cr_expect_not(names_record_claims(paths[i].path, record, &other));
	}
	cr_expect(names_record_claims(path_with_parent(NAMES_NAME_BYTES - 1), record, &address));
	cr_expect_not(names_record_claims(path_with_parent(NAMES_NAME_BYTES), record, &address));
	record_free(record);
}

Test(names_collect, yarn_ip_is_a_record_s_own_anywhere)
{
	struct names_address ip;
	struct names_address endpoint;
	struct record *record = read_record(
		RECORD("\"yarn:ip\":\"10.0.0.9\",", AT(A("10.0.0.1", "1"))));
	cr_assert(names_read_address(&ip, "10.0.0.9"));
	cr_assert(names_read_address(&endpoint, "10.0.0.1"));
	cr_expect(names_record_claims("/services/s", record, &ip));
	cr_expect_not(names_record_claims("/services/s", record, &endpoint));
	record_free(record);
}

struct keys {
	uint64_t keys[8];
	size_t count;
};

static void add_key(void *context, uint64_t key)
{
	struct keys *keys = context;
	cr_assert_lt(keys->count, ARRAY_LEN(keys->keys));
	keys->keys[keys->count++] = key;
}

static bool has_key(const struct keys *keys, const char *address)
{
	struct names_address one;
	cr_assert(names_read_address(&one, address));
	uint64_t key = names_address_key(&one);
	for (size_t i = 0; i < keys->count; i++) {
		if (keys->keys[i] == key) {
			return true;
		}
	}
	return false;
}

static struct keys keys_of(const char *path, const struct record *record)
{
	struct keys keys = { .count = 0 };
	names_each_key(path, record, add_key, &keys);
	return keys;
}

Test(names_collect, a_record_is_found_by_what_it_claims_and_by_its_container)
{
	struct record *record = read_record(RECORD(
		"\"yarn:ip\":\"10.0.0.9\",", AT(A("10.0.0.1", "1")) "," AT(A("10.0.0.9", "2"))));
	struct keys keys = keys_of("/services/s", record);
	cr_expect_eq(keys.count, 1);
	cr_expect(has_key(&keys, "10.0.0.9"));
	keys = keys_of("/users/u/c/i/components/n", record);
	cr_expect_eq(keys.count, 2, "each address once");
	cr_expect(has_key(&keys, "10.0.0.9") && has_key(&keys, "10.0.0.1"));
	keys = keys_of("/services/ctr-1", record);
	uint64_t container;
	cr_assert(names_container_key(&container, "ctr-1"));
	cr_expect_eq(keys.count, 2);
	cr_expect(keys.keys[0] == container || keys.keys[1] == container);
	record_free(record);
}
