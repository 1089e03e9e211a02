/* Types of addresses, and the form of their values. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/base/quote.h"
#include "lib/base/utf8.h"
#include "lib/record/internal.h"

#define FREE_TYPE_PREFIX "x-"
#define FREE_TYPE_KEY "address" /* the key of an address that was given as text */

enum { MOST_KEYS = 3 };

/* The keys have the order of the one-line form: host, port, path; or there is one key. */
struct address_type {
	const char *name;
	const char *keys[MOST_KEYS + 1];
	const char *form;
};

static const struct address_type types[] = {
	{ "uri", { "uri" }, "the URI" },
	{ "hostname", { "hostname" }, "the host" },
	{ "inetaddress", { "hostname", "port" }, "host:port, or [::1]:port for IPv6" },
	{ "host/port", { "host", "port" }, "host:port, or [::1]:port for IPv6" },
	{ "path", { "path" }, "the path" },
	{ RECORD_ZOOKEEPER, { "hostname", "port", "path" },
		"host:port/path, or [::1]:port/path for IPv6" },
	{ RECORD_ZKTRIPLE, { "hostname", "port", "path" },
		"host:port/path, or [::1]:port/path for IPv6" },
};

static const struct address_type *find_type(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (strcmp(types[i].name, name) == 0) {
			return &types[i];
		}
	}
	return NULL;
}

static bool is_free_type(const char *name)
{
	size_t prefix_len = strlen(FREE_TYPE_PREFIX);
	return strncmp(name, FREE_TYPE_PREFIX, prefix_len) == 0 && name[prefix_len] != '\0';
}

bool record_address_type_valid(const char *address_type)
{
	return find_type(address_type) || is_free_type(address_type);
}

const char *const *record_address_keys(const char *address_type)
{
	static const char *const unknown[] = { "uri", NULL };
	const struct address_type *type = find_type(address_type);
	return type ? type->keys : unknown;
}

/* True when `text` is not empty and has no white space, control character or one of `forbidden`. */
static bool is_one_word(const char *text, const char *forbidden)
{
	for (const char *c = text; *c; c++) {
		if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr(forbidden, *c)) {
			return false;
		}
	}
	return text[0] != '\0';
}

bool record_uri_valid(const char *text)
{
	return is_one_word(text, "\"<>");
}

static bool is_host(const char *text)
{
	return is_one_word(text, "/[]@");
}

static bool is_port(const char *text)
{
	size_t len = strlen(text);
	return len >= 1 && len <= 5 && strspn(text, "0123456789") == len && text[0] != '0' &&
		atol(text) <= 65535;
}

static bool is_filled(const char *text)
{
	return text[0] != '\0';
}

static bool is_absolute_path(const char *text)
{
	return text[0] == '/';
}

struct value_rule {
	const char *key;
	const char *address_type; /* NULL: of every type */
	bool (*holds)(const char *text);
	const char *allowed;
};

static const struct value_rule value_rules[] = {
	{ "uri", NULL, record_uri_valid, RECORD_URI },
	{ "hostname", NULL, is_host, "a host name or IP address" },
	{ "host", NULL, is_host, "a host name or IP address" },
	{ "port", NULL, is_port, "a number from 1 to 65535, written as a string" },
	{ "path", RECORD_ZOOKEEPER, is_absolute_path, "a path that begins with /" },
	{ "path", RECORD_ZKTRIPLE, is_absolute_path, "a path that begins with /" },
	{ "path", NULL, is_filled, "a path" },
};

static const struct value_rule *find_rule(const char *key, const char *address_type)
{
	const struct value_rule *rule = value_rules;
	while (strcmp(rule->key, key) != 0 ||
		(rule->address_type && strcmp(rule->address_type, address_type) != 0)) {
		rule++;
	}
	return rule;
}

static int check_value(const struct address_type *type, const char *key, const json_t *address,
	const char *place, struct err *err)
{
	const struct value_rule *rule = find_rule(key, type->name);
	const json_t *value = json_object_get(address, key);
	if (!value) {
		return err_set(err, BERTH_INVALID_RECORD, "%s has no %s, which %s addresses need",
			place, key, type->name);
	}
	if (!rule->holds(json_string_value(value))) {
		return err_set(err, BERTH_INVALID_RECORD, "%s of %s is %s; it must be %s", key,
			place, quote_text(json_string_value(value)).text, rule->allowed);
	}
	return 0;
}

static bool has_key(const struct address_type *type, const char *key)
{
	for (size_t i = 0; type->keys[i]; i++) {
		if (strcmp(type->keys[i], key) == 0) {
			return true;
		}
	}
	return false;
}

static int check_typed(
	const struct address_type *type, const json_t *address, const char *place, struct err *err)
{
	int code = 0;
	for (size_t i = 0; type->keys[i] && !code; i++) {
		code = check_value(type, type->keys[i], address, place, err);
	}
	if (code) {
		return code;
	}
	const char *key;
	json_t *value;
	json_object_foreach ((json_t *)address, key, value) {
		if (!has_key(type, key)) {
			return err_set(err, BERTH_INVALID_RECORD,
				"%s holds %s, which %s addresses do not have", place,
				quote_text(key).text, type->name);
		}
	}
	return 0;
}

int record_address_check(
	const char *address_type, const json_t *address, const char *place, struct err *err)
{
	if (!json_is_object(address)) {
		return err_set(err, BERTH_INVALID_RECORD, "%s must be an object of strings", place);
	}
	const char *key;
	json_t *value;
	json_object_foreach ((json_t *)address, key, value) {
		int code = record_check_text(address, key, LIMIT_ADDRESS_VALUE_BYTES, place, err);
		if (code) {
			return code;
		}
	}
	const struct address_type *type = find_type(address_type);
	return type ? check_typed(type, address, place, err) : 0;
}

/* Borrowed pieces of an address in one line, in the order of a type's keys. */
struct piece {
	const char *text;
	size_t len;
};

static size_t key_count(const struct address_type *type)
{
	size_t count = 0;
	while (type->keys[count]) {
		count++;
	}
	return count;
}

/* Splits host:port or host:port/path; false when it has another form. */
static bool split(const char *text, bool with_path, struct piece pieces[MOST_KEYS])
{
	size_t len = with_path ? strcspn(text, "/") : strlen(text);
	const char *colon = memrchr(text, ':', len);
	if (!colon) {
		return false;
	}
	pieces[0] = (struct piece){ text, (size_t)(colon - text) };
	pieces[1] = (struct piece){ colon + 1, len - pieces[0].len - 1 };
	pieces[2] = (struct piece){ text + len, strlen(text + len) };
	if (text[0] == '[') {
		if (colon[-1] != ']') {
			return false;
		}
		pieces[0] = (struct piece){ text + 1, pieces[0].len - 2 };
		return memchr(pieces[0].text, ':', pieces[0].len);
	}
	return !memchr(text, ':', pieces[0].len);
}

static json_t *address_from_pieces(const struct address_type *type, const struct piece *pieces)
{
	json_t *address = json_object();
	for (size_t i = 0; type->keys[i]; i++) {
		json_t *value = json_stringn(pieces[i].text, pieces[i].len);
		if (json_object_set_new(address, type->keys[i], value)) {
			json_decref(address);
			return NULL;
		}
	}
	return address;
}

json_t *record_address_parse(const char *address_type, const char *text, struct err *err)
{
	static const struct address_type free_type = { FREE_TYPE_PREFIX, { FREE_TYPE_KEY },
		"any text" };
	const struct address_type *type = find_type(address_type);
	if (!type && !is_free_type(address_type)) {
		err_set(err, BERTH_INVALID_RECORD,
			"address type %s is not known; allowed are " RECORD_ADDRESS_TYPES,
			quote_text(address_type).text);
		return NULL;
	}
	type = type ? type : &free_type;
	struct piece pieces[MOST_KEYS] = { { text, strlen(text) } };
	if (key_count(type) > 1 && !split(text, key_count(type) > 2, pieces)) {
		err_set(err, BERTH_INVALID_RECORD, "address %s is not of type %s; its form is %s",
			quote_text(text).text, type->name, type->form);
		return NULL;
	}
	json_t *address = address_from_pieces(type, pieces);
	if (!address && utf8_is_valid(text, strlen(text))) {
		(void)!record_no_memory(err);
		return NULL;
	}
	if (!address) {
		err_set(err, BERTH_INVALID_RECORD, "address %s is not valid UTF-8",
			quote_text(text).text);
		return NULL;
	}
	char place[sizeof(struct quoted) + sizeof("address ")];
	snprintf(place, sizeof(place), "address %s", quote_text(text).text);
	if (record_address_check(address_type, address, place, err)) {
		json_decref(address);
		return NULL;
	}
	return address;
}

int record_address_text(const char *address_type, const json_t *address, char **ret_text)
{
	const struct address_type *type = find_type(address_type);
	const char *values[MOST_KEYS] = { NULL };
	size_t count = type ? key_count(type) : 1;
	*ret_text = NULL;
	for (size_t i = 0; i < count; i++) {
		const char *key = type ? type->keys[i] : FREE_TYPE_KEY;
		values[i] = json_string_value(json_object_get(address, key));
		if (!values[i] || !*values[i]) {
			return 0;
		}
	}
	if (count == 1) {
		*ret_text = strdup(values[0]);
		return *ret_text ? 0 : -1;
	}
	assert(values[0]); /* each type has a key */
	bool is_ipv6 = strchr(values[0], ':');
	char *text;
	if (asprintf(&text, "%s%s%s:%s%s", is_ipv6 ? "[" : "", values[0], is_ipv6 ? "]" : "",
		    values[1], values[2] ? values[2] : "") < 0) {
		return -1;
	}
	*ret_text = text;
	return 0;
}
