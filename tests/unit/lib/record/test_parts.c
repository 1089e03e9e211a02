/* Labels that choose records, and targets of endpoints. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/record/select.h"
#include "lib/record/target.h"

/* ---- select ---- */

TestSuite(select);

static struct record *make(void)
{
	static const char text[] =
		"{\"type\":\"JSONServiceRecord\",\"track\":\"canary\",\"shard\":2,\"load\":0.1,"
		"\"on\":true,\"Data.Centre\":\"EU 1\",\"list\":[],\"eq\":\"a=b\"}";
	struct record *record;
	cr_assert_eq(record_decode(&record, text, strlen(text), NULL), 0);
	return record;
}

Test(select, all_lines_must_hold_and_values_are_compared_as_text)
{
	static const struct {
		const char *selection;
		bool takes;
	} rows[] = { { NULL, true }, { "", true }, { "track=canary\n", true },
		{ "track=Canary\n", false }, { "track=canar\n", false }, { "none=x\n", false },
		{ "shard=2\n", true }, { "shard=02\n", false }, { "load=0.1\n", true },
		{ "on=true\n", true }, { "on=1\n", false }, { "list=\n", false },
		{ "eq=a=b\n", true }, { "track=canary\nshard=2\n", true },
		{ "track=canary\nshard=3\n", false } };
	struct record *record = make();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect_eq(select_takes(rows[i].selection, record), rows[i].takes, "%s",
			rows[i].selection ? rows[i].selection : "NULL");
	}
	record_free(record);
}

Test(select, labels_know_no_case_and_have_hyphens)
{
	struct record *record = make();
	cr_expect(select_has_labels(record, "track", "canary"));
	cr_expect(select_has_labels(record, "data-centre", "eu-1"));
	cr_expect(select_has_labels(record, "shard", "2"));
	cr_expect(!select_has_labels(record, "shard", "3"));
	cr_expect(!select_has_labels(record, "track", "stable"));
	record_free(record);
}

Test(select, a_name_or_value_that_no_line_can_hold_is_refused)
{
	char out[SELECT_BYTES] = "";
	char longest[SELECT_VALUE_BYTES + 1];
	struct err err = ERR_INIT;
	memset(longest, 'a', SELECT_VALUE_BYTES);
	longest[SELECT_VALUE_BYTES] = '\0';
	cr_expect(select_add(out, "", "x", &err) && select_add(out, "a=b", "x", &err) &&
		select_add(out, "a\nb", "x", &err) && select_add(out, "a", "x\ny", &err) &&
		select_add(out, "a", longest, &err));
	cr_expect_str_eq(out, "");
	struct err none = ERR_INIT;
	for (int i = 0; i < SELECT_MOST; i++) {
		cr_expect_eq(select_add(out, "a", "x", &none), 0);
	}
	cr_expect(select_add(out, "a", "x", &none));
}

/* ---- target ---- */

TestSuite(record_target);

struct row {
	const char *type;
	const char *address; /* JSON */
	const char *host;    /* NULL: it names none */
	int port;
};

static const struct row rows[] = {
	{ "uri", "{\"uri\":\"http://web.example.org:8080/a?b#c\"}", "web.example.org", 8080 },
	{ "uri", "{\"uri\":\"http://web.example.org\"}", "web.example.org", 80 },
	{ "uri", "{\"uri\":\"HTTPS://web.example.org/\"}", "web.example.org", 443 },
	{ "uri", "{\"uri\":\"http://user:secret@web.example.org:81\"}", "web.example.org", 81 },
	{ "uri", "{\"uri\":\"http://[2001:db8::1]:81/\"}", "2001:db8::1", 81 },
	{ "uri", "{\"uri\":\"http://[2001:db8::1]\"}", "2001:db8::1", 80 },
	{ "uri", "{\"uri\":\"http://[2001:db8::1\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://[2001:db8::1]81\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"jdbc:postgresql://10.0.0.1:5432/db\"}", "10.0.0.1", 5432 },
	{ "uri", "{\"uri\":\"redis://cache\"}", "cache", 0 },
	{ "uri", "{\"uri\":\"x://web:1\"}", "web", 1 },
	{ "uri", "{\"uri\":\"://web:1\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"mongodb://a:1,b:2/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://web:70000/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://web:0/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://web:65535/\"}", "web", 65535 },
	{ "uri", "{\"uri\":\"http://web:65536/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://web:100000/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://web:000080/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://web:19/\"}", "web", 19 },
	{ "uri", "{\"uri\":\"http://web:/\"}", "web", 80 },
	{ "uri", "{\"uri\":\"ws://web/\"}", "web", 80 },
	{ "uri", "{\"uri\":\"wss://web/\"}", "web", 443 },
	{ "uri", "{\"uri\":\"http:/web/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http//web/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://[::1]x\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://user@/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://web:8x/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://a b/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http://\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"http:///path\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"urn:admin\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"//web/\"}", NULL, 0 },
	{ "uri", "{\"uri\":\"\"}", NULL, 0 },
	{ "uri", "{}", NULL, 0 },
	{ "host/port", "{\"host\":\"10.0.0.1\",\"port\":\"80\"}", "10.0.0.1", 80 },
	{ "host/port", "{\"host\":\"::1\",\"port\":\"80\"}", "::1", 80 },
	{ "host/port", "{\"host\":\"web\"}", "web", 0 },
	{ "host/port", "{\"host\":\"web\",\"port\":\"99999\"}", NULL, 0 },
	{ "inetaddress", "{\"hostname\":\"web\",\"port\":\"1\"}", "web", 1 },
	{ "hostname", "{\"hostname\":\"web\"}", "web", 0 },
	{ "hostname", "{\"hostname\":\"we b\"}", NULL, 0 },
	{ "zookeeper", "{\"hostname\":\"zk\",\"port\":\"2181\",\"path\":\"/a\"}", "zk", 2181 },
	{ "zookeeper", "{\"host\":\"zk\",\"port\":\"2181\",\"path\":\"/a\"}", "zk", 2181 },
	{ "path", "{\"path\":\"/run/web.sock\"}", NULL, 0 },
	{ "x-other", "{\"host\":\"web\",\"port\":\"1\"}", NULL, 0 },
};

Test(record_target, every_type_names_what_it_names)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *row = &rows[i];
		json_t *address = json_loads(row->address, 0, NULL);
		struct record_target target = { "untouched", 7 };
		bool found = record_target_read(&target, row->type, address);
		cr_assert_eq(found, row->host != NULL, "%s %s", row->type, row->address);
		cr_assert_str_eq(
			target.host, row->host ? row->host : "untouched", "%s", row->address);
		cr_assert_eq(target.port, row->host ? row->port : 7, "%s", row->address);
		json_decref(address);
	}
}

Test(record_target, a_host_has_a_longest_length)
{
	char uri[RECORD_TARGET_HOST_BYTES + 20];
	struct record_target target = { .port = 7 };
	char host[RECORD_TARGET_HOST_BYTES + 1];
	memset(host, 'h', sizeof(host));
	snprintf(uri, sizeof(uri), "http://%.*s", RECORD_TARGET_HOST_BYTES, host);
	cr_expect_not(record_target_read_uri(&target, uri));
	snprintf(uri, sizeof(uri), "http://%.*s", RECORD_TARGET_HOST_BYTES - 1, host);
	cr_expect(record_target_read_uri(&target, uri));
	cr_expect_eq(strlen(target.host), RECORD_TARGET_HOST_BYTES - 1);
	cr_expect_eq(target.port, 80);
}
