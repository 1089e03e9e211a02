#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/quote.h"
#include "lib/record/record.h"

static char *text_of(const char *type, const json_t *address)
{
	char *text;
	cr_assert_eq(record_address_text(type, address, &text), 0);
	return text;
}

TestSuite(record_address);

struct example {
	char type[16];
	char text[48];
	char json[80]; /* or a part of the message for a refused address */
};

ParameterizedTestParameters(record_address, text_and_object_are_inverse)
{
	static struct example examples[] = {
		{ "uri", "http://rack1server28:35881", "{\"uri\":\"http://rack1server28:35881\"}" },
		{ "uri", "rack4server3:43572", "{\"uri\":\"rack4server3:43572\"}" },
		{ "hostname", "host1", "{\"hostname\":\"host1\"}" },
		{ "inetaddress", "host1:80", "{\"hostname\":\"host1\",\"port\":\"80\"}" },
		{ "inetaddress", "[fe80::1%eth0]:65535",
			"{\"hostname\":\"fe80::1%eth0\",\"port\":\"65535\"}" },
		{ "host/port", "10.0.0.1:1", "{\"host\":\"10.0.0.1\",\"port\":\"1\"}" },
		{ "uri", "http://a!b", "{\"uri\":\"http://a!b\"}" },
		{ "host/port", "[2001:db8::1]:80", "{\"host\":\"2001:db8::1\",\"port\":\"80\"}" },
		{ "host/port", "[::1]:48551", "{\"host\":\"::1\",\"port\":\"48551\"}" },
		{ "path", "/a b/c", "{\"path\":\"/a b/c\"}" },
		{ "zookeeper", "zk1:2181/hbase/a:b",
			"{\"hostname\":\"zk1\",\"port\":\"2181\",\"path\":\"/hbase/a:b\"}" },
		{ "zktriple", "zk1:2181/hbase",
			"{\"hostname\":\"zk1\",\"port\":\"2181\",\"path\":\"/hbase\"}" },
		{ "zookeeper", "[::1]:2181/",
			"{\"hostname\":\"::1\",\"port\":\"2181\",\"path\":\"/\"}" },
		{ "x-pigeon", "loft 3", "{\"address\":\"loft 3\"}" },
	};
	return cr_make_param_array(struct example, examples, ARRAY_LEN(examples));
}

ParameterizedTest(struct example *example, record_address, text_and_object_are_inverse)
{
	struct err err = ERR_INIT;
	json_t *address = record_address_parse(example->type, example->text, &err);
	cr_assert_not_null(address, "%s", err.msg);
	char *json = json_dumps(address, JSON_COMPACT);
	cr_assert_str_eq(json, example->json);
	char *text = text_of(example->type, address);
	cr_assert_str_eq(text, example->text);
	free(json);
	free(text);
	json_decref(address);
}

ParameterizedTestParameters(record_address, refuses_text)
{
	static struct example examples[] = {
		{ "uri", "", "uri of address \"\" is \"\"; it must be a URI" },
		{ "uri", "http://a b", "must be a URI without spaces" },
		{ "uri", "a\xff", "is not valid UTF-8" },
		{ "uri", "http://a\x7f", "must be a URI without spaces" },
		{ "inetaddress", "host:80/path", "a number from 1 to 65535" },
		{ "hostname", "a/b", "must be a host name or IP address" },
		{ "hostname", "", "must be a host name" },
		{ "inetaddress", "host", "its form is host:port" },
		{ "inetaddress", ":80", "must be a host name" },
		{ "inetaddress", "::1:80", "[::1]:port for IPv6" },
		{ "inetaddress", "[host]:80", "its form is" },
		{ "inetaddress", "[::1:80", "its form is" },
		{ "inetaddress", "[::1]", "its form is" },
		{ "host/port", "h:0", "a number from 1 to 65535" },
		{ "host/port", "h:65536", "a number from 1 to 65535" },
		{ "host/port", "h:080", "a number from 1 to 65535" },
		{ "host/port", "h:+80", "a number from 1 to 65535" },
		{ "host/port", "h:99999999999999999999", "a number from 1 to 65535" },
		{ "host/port", "h:80 ", "a number from 1 to 65535" },
		{ "host/port", "h:", "a number from 1 to 65535" },
		{ "path", "", "must be a path" },
		{ "zookeeper", "h:2181", "must be a path that begins with /" },
		{ "zookeeper", "/a:1/b", "its form is host:port/path" },
		{ "zktriple", "h:2181", "must be a path that begins with /" },
		{ "x-", "a", "address type \"x-\" is not known; allowed are uri, hostname" },
		{ "pigeon", "a", "address type \"pigeon\" is not known" },
	};
	return cr_make_param_array(struct example, examples, ARRAY_LEN(examples));
}

ParameterizedTest(struct example *example, record_address, refuses_text)
{
	struct err err = ERR_INIT;
	cr_assert_null(record_address_parse(example->type, example->text, &err));
	cr_assert_eq(err.code, BERTH_INVALID_RECORD);
	cr_assert_not_null(
		strstr(err.msg, example->json), "%s %s: %s", example->type, example->text, err.msg);
}

Test(record_address, too_long_a_value_exceeds_a_limit)
{
	char text[1026];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	struct err err = ERR_INIT;
	cr_assert_null(record_address_parse("x-pigeon", text, &err));
	cr_assert_eq(err.code, BERTH_LIMIT_EXCEEDED);
	cr_assert_not_null(strstr(err.msg, "1025 bytes; at most 1024"), "%s", err.msg);
}

/* The message names the address, as much of it as a message shows. */
Test(record_address, refused_is_named_whole)
{
	char text[300];
	char quoted[300];
	struct err err = ERR_INIT;
	memset(text, 'h', sizeof(text) - 1);
	memcpy(text + sizeof(text) - 4, "/:1", 4);
	snprintf(quoted, sizeof(quoted), "hostname of address %s is ", quote_text(text).text);
	cr_assert_null(record_address_parse("inetaddress", text, &err));
	cr_assert(strstr(err.msg, quoted), "%s", err.msg);
}

struct written {
	char type[16];
	char addresses[160];
	char complaint[96]; /* "" : may be written */
};

ParameterizedTestParameters(record_address, keys_and_values_are_checked_on_write)
{
	static struct written rows[] = {
		{ "uri", "[{\"uri\":\"u\"}]", "" },
		{ "uri", "[]", "" },
		{ "uri", "[{}]",
			"address 1 of external endpoint 1 has no uri, which uri addresses need" },
		{ "uri", "[{\"uri\":\"u\",\"port\":\"1\"}]",
			"holds \"port\", which uri addresses do not have" },
		{ "uri", "[{\"uri\":7}]", "uri of address 1 of external endpoint 1 is a number" },
		{ "uri", "[\"u\"]", "address 1 of external endpoint 1 must be an object" },
		{ "hostname", "[{\"hostname\":\"h\"}]", "" },
		{ "hostname", "[{\"host\":\"h\"}]", "has no hostname" },
		{ "inetaddress", "[{\"hostname\":\"h\",\"port\":\"1\"}]", "" },
		{ "inetaddress", "[{\"host\":\"h\",\"port\":\"1\"}]", "has no hostname" },
		{ "host/port", "[{\"port\":\"48551\",\"host\":\"h\"}]", "" },
		{ "host/port", "[{\"hostname\":\"h\",\"port\":\"1\"}]", "has no host" },
		{ "host/port", "[{\"host\":\"h\",\"port\":80}]",
			"is a number; it must be a string" },
		{ "host/port", "[{\"host\":\"h\",\"port\":\"http\"}]",
			"port of address 1 of external" },
		{ "path", "[{\"path\":\"p\"}]", "" },
		{ "zookeeper",
			"[{\"hostname\":\"a\",\"port\":\"1\",\"path\":\"/p\"},"
			"{\"hostname\":\"b\",\"port\":\"1\",\"path\":\"/p\"}]",
			"" },
		{ "zookeeper",
			"[{\"hostname\":\"a\",\"port\":\"1\",\"path\":\"/p\"},"
			"{\"hostname\":\"b\",\"port\":\"1\",\"path\":\"/q\"}]",
			"addresses 1 and 2 of external endpoint 1 have different paths" },
		{ "zktriple",
			"[{\"hostname\":\"a\",\"port\":\"1\",\"path\":\"/p\"},"
			"{\"hostname\":\"b\",\"port\":\"1\",\"path\":\"/q\"}]",
			"addresses 1 and 2 of external endpoint 1 have different paths" },
		{ "zookeeper",
			"[{\"hostname\":\"a\",\"port\":\"1\",\"path\":\"/p\"},"
			"{\"hostname\":\"b\",\"port\":\"1\",\"path\":\"/p\"},"
			"{\"hostname\":\"c\",\"port\":\"1\",\"path\":\"/q\"}]",
			"addresses 1 and 3 of external endpoint 1 have different paths" },
		{ "uri", "[{\"uri\":\"u\"},{\"uri\":\"a b\"},{\"uri\":\"u\"}]",
			"uri of address 2 of external endpoint 1" },
		{ "zookeeper", "[{\"hostname\":\"a\",\"port\":\"1\",\"path\":\"p\"}]",
			"begins with /" },
		{ "x-pigeon", "[{\"loft\":\"3\",\"port\":\"none\"},{}]", "" },
		{ "x-pigeon", "[{\"loft\":[]}]",
			"loft of address 1 of external endpoint 1 is an array" },
	};
	return cr_make_param_array(struct written, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct written *row, record_address, keys_and_values_are_checked_on_write)
{
	struct record *record = record_create();
	json_t *addresses = json_loads(row->addresses, 0, NULL);
	cr_assert_not_null(addresses);
	cr_assert_eq(
		record_add_endpoint_take(record, "external", "a", "p", row->type, addresses), 0);
	struct err err = ERR_INIT;
	int code = record_check(record, &err);
	cr_assert_eq(code, row->complaint[0] ? BERTH_INVALID_RECORD : 0, "%s", err.msg);
	cr_assert_not_null(strstr(err.msg, row->complaint), "%s", err.msg);
	record_free(record);
}

Test(record_address, without_its_keys_has_no_text)
{
	json_t *address = json_pack("{s:s}", "host", "h");
	cr_assert_null(text_of("host/port", address));
	cr_assert_null(text_of("uri", address));
	cr_assert_null(text_of("x-pigeon", address));
	json_decref(address);
}

Test(record_address, with_an_empty_value_has_no_text)
{
	json_t *address = json_pack("{s:s, s:s, s:s}", "uri", "", "host", "", "port", "80");
	cr_assert_null(text_of("uri", address));
	cr_assert_null(text_of("host/port", address));
	json_decref(address);
}
