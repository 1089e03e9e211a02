#include "agent/config/verify_dialect.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/config/value.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"

static const char letters_and_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int config_verify_dns_name(const char *value, struct err *err)
{
	const char *label = value;
	for (;;) {
		size_t len = strcspn(label, ".");
		if (len == 0 || len > LIMIT_PATH_ELEMENT_BYTES ||
			strspn(label, letters_and_digits) < len) {
			return err_set(err, BERTH_FAILED,
				"\"%s\" is not a domain name; allowed are labels of letters, "
				"digits, _ and -, with dots between them",
				value);
		}
		if (label[len] == '\0') {
			break;
		}
		label += len + 1;
	}
	return strcasecmp(label, "zookeeper") == 0
		? err_set(err, BERTH_FAILED,
			  "\"%s\" would lie below /zookeeper, which is the server's own", value)
		: 0;
}

int config_verify_foreign_name(const char *value, struct err *err)
{
	return path_foreign_element_valid(value, strlen(value))
		? 0
		: err_set(err, BERTH_FAILED,
			  "\"%s\" is not a name of a node: it holds a slash or a control character",
			  value);
}

int config_verify_foreign_path(const char *value, struct err *err)
{
	return path_foreign_check(value, strlen(value), err);
}

int config_verify_host_type(const char *value, struct err *err)
{
	return strspn(value, letters_and_digits) == strlen(value)
		? 0
		: err_set(err, BERTH_FAILED, "\"%s\"; allowed are letters, digits, _ and -", value);
}

int config_verify_ipv4(const char *value, struct err *err)
{
	struct in_addr ignored;
	return inet_pton(AF_INET, value, &ignored) == 1
		? 0
		: err_set(err, BERTH_FAILED, "\"%s\" is not an IPv4 address", value);
}

static int verify_number(const char *value, long least, long most, struct err *err)
{
	size_t len = strlen(value);
	long long number = strtoll(value, NULL, 10);
	if (len == 0 || len > 10 || strspn(value, "0123456789") != len || number < least ||
		number > most) {
		return err_set(err, BERTH_FAILED, "\"%s\" is not a number from %ld to %ld", value,
			least, most);
	}
	return 0;
}

int config_verify_count(const char *value, struct err *err)
{
	return verify_number(value, 0, INT_MAX, err);
}

int config_verify_seconds(const char *value, struct err *err)
{
	int64_t ignored_ms;
	struct err of_duration = ERR_INIT;
	if (verify_number(value, 0, INT_MAX, err) == 0) {
		return 0;
	}
	err_clear(err);
	if (config_parse_duration(value, 0, INT_MAX * INT64_C(1000), &ignored_ms, &of_duration) ||
		ignored_ms % 1000 != 0) {
		return err_set(err, BERTH_FAILED,
			"\"%s\" is not a number from 0 to %d, nor a duration of whole seconds "
			"such as 25s",
			value, INT_MAX);
	}
	return 0;
}

int config_verify_port(const char *value, struct err *err)
{
	return verify_number(value, 1, UINT16_MAX, err);
}

int config_verify_json(const char *value, struct err *err)
{
	json_error_t error;
	json_t *json = json_loads(value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
	json_decref(json);
	return json ? 0 : err_set(err, BERTH_FAILED, "it is not JSON: %s", error.text);
}
