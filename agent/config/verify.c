#include "agent/config/verify.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <grp.h>
#include <pwd.h>
#include <regex.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/holder.h"
#include "agent/command/spawn.h"
#include "agent/config/found.h"
#include "agent/config/value.h"
#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/registry/url.h"

/* By which answers of the user database are known. */
#define USER_KEY "user "
#define GROUP_KEY "group "

static const char name_bytes[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

enum {
	SECTION_NAME_BYTES = 64,
	ATTRIBUTE_NAME_BYTES = 255,
	PROXY_NAME_BYTES = 128,
	ID_MAX = INT32_MAX
};

/* "prod-1" for "Prod_1"; NULL when letters, digits and hyphens alone do not make a label. */
static char *label_near(const char *value)
{
	char *label = allocate_text(value);
	size_t len = 0;
	for (const char *at = value; *at; at++) {
		bool word = isalnum((unsigned char)*at) && (unsigned char)*at < 0x80;
		if (word || (len > 0 && label[len - 1] != '-')) {
			label[len++] = (char)(word ? tolower((unsigned char)*at) : '-');
		}
	}
	while (len > 0 && label[len - 1] == '-') {
		len--;
	}
	label[len] = '\0';
	if (path_element_valid(label, len)) {
		return label;
	}
	free(label);
	return NULL;
}

int config_verify_label(const char *value, struct err *err)
{
	if (path_element_valid(value, strlen(value))) {
		return 0;
	}
	char *near = label_near(value);
	err_set(err, BERTH_FAILED,
		"must be a DNS label: a to z, 0 to 9 and, not at an end, -; at most 63 bytes%s%s%s",
		near ? "; write " : "", near ? near : "", near ? ", for example" : "");
	free(near);
	return err->code;
}

int config_verify_path(const char *value, struct err *err)
{
	if (strcmp(value, "/") == 0) {
		return err_set(err, BERTH_FAILED, "the root cannot hold a record");
	}
	return path_check(value, strlen(value), err);
}

int config_verify_import_path(const char *value, struct err *err)
{
	if (strcmp(value, "/") == 0) {
		return err_set(err, BERTH_FAILED, "the root of the registry cannot be an import");
	}
	return path_check(value, strlen(value), err);
}

/* The bytes before a trailing slash and two asterisks; of all without these. */
static size_t len_of_path(const char *value)
{
	static const char recursive[] = "/**";
	size_t len = strlen(value);
	size_t suffix_len = strlen(recursive);
	bool is_tree = len >= suffix_len && strcmp(value + len - suffix_len, recursive) == 0;
	return is_tree ? len - suffix_len : len;
}

int config_verify_warm(const char *value, struct err *err)
{
	size_t len = len_of_path(value);
	return len == 0 ? 0 : path_check(value, len, err);
}

int config_verify_root(const char *value, struct err *err)
{
	enum { ROOT_BYTES = 255 };
	if (path_check(value, strlen(value), err)) {
		return err->code;
	}
	return strcmp(value, "/") != 0 && strlen(value) <= ROOT_BYTES
		? 0
		: err_set(err, BERTH_FAILED,
			  "\"%s\": the path of a name is put below it, so it is one other than /, "
			  "of at most %d bytes, such as /net/eu2",
			  value, ROOT_BYTES);
}

int config_verify_tree(const char *value, struct err *err)
{
	if (len_of_path(value) == strlen(value)) {
		return err_set(err, BERTH_FAILED,
			"\"%s\" must end in /**: a path is shown with all that is below it", value);
	}
	return config_verify_warm(value, err);
}

int config_verify_host_name(const char *value, struct err *err)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	size_t len = strlen(value);
	if (strcmp(value, "*") == 0 || (len > 0 && len <= 253 && strspn(value, allowed) == len)) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"\"%s\" is not a host name; allowed are letters, digits, \"-\", \"_\" and dots, "
		"without a port, or * alone",
		value);
}

int config_verify_listen(const char *value, struct err *err)
{
	char *host;
	char *port;
	int ret = config_parse_host_port(value, 0, &host, &port, err);
	if (ret == 0) {
		free(host);
		free(port);
	}
	return ret;
}

int config_verify_xds_listen(const char *value, struct err *err)
{
	enum { SOCKET_PATH_BYTES = 107 };
	if (value[0] != '/') {
		return config_verify_listen(value, err);
	}
	return strlen(value) <= SOCKET_PATH_BYTES
		? 0
		: err_set(err, BERTH_FAILED, "the path of a socket has at most %d bytes",
			  SOCKET_PATH_BYTES);
}

int config_verify_zone(const char *value, struct err *err)
{
	enum { ZONE_BYTES = 255 };
	bool good = strlen(value) <= ZONE_BYTES;
	for (const char *at = value; good && *at;) {
		size_t len = strcspn(at, "/");
		good = len > 0 && strspn(at, name_bytes) >= len && (!at[len] || at[len + 1]);
		at += len + (at[len] == '/');
	}
	return good ? 0
		    : err_set(err, BERTH_FAILED,
			      "a zone is made of parts with a / between them, such as eu-west/a; "
			      "a part has letters, digits, . _ and -; at most %d bytes",
			      ZONE_BYTES);
}

int config_verify_dns_address(const char *value, struct err *err)
{
	char *host;
	char *port;
	int ret = config_parse_host_port(value, 1, &host, &port, err);
	if (ret == 0) {
		unsigned char bytes[sizeof(struct in6_addr)];
		if (inet_pton(*value == '[' ? AF_INET6 : AF_INET, host, bytes) != 1) {
			ret = err_set(err, BERTH_FAILED,
				"\"%s\" has no numeric address; allowed is "
				"127.0.0.1:53 or [::1]:53",
				value);
		}
		free(host);
		free(port);
	}
	return ret;
}

int config_verify_dns_forward(const char *value, struct err *err)
{
	if (strcmp(value, "none") == 0 || strcmp(value, "system") == 0) {
		return 0;
	}
	return config_verify_dns_address(value, err) ? err_wrap(err, "none, system or ADDRESS:PORT")
						     : 0;
}

int config_verify_domain(const char *value, struct err *err)
{
	const char *label = value;
	while (true) {
		size_t len = strcspn(label, ".");
		if (!path_element_valid(label, len)) {
			return err_set(err, BERTH_FAILED,
				"\"%s\" is not a domain; allowed are labels of lower-case letters, "
				"digits and hyphens between dots",
				value);
		}
		if (label[len] == '\0') {
			return 0;
		}
		label += len + 1;
	}
}

int config_verify_registry_url(const char *value, struct err *err)
{
	struct registry_url url;
	return registry_url_parse(&url, value, err);
}

int config_verify_auth(const char *value, struct err *err)
{
	static const char *const words[] = { "none", "digest", "sasl", NULL };
	unsigned index;
	return config_parse_word(value, words, &index, err);
}

int config_verify_accounts(const char *value, struct err *err)
{
	char **items;
	size_t count;
	config_parse_list(value, &items, &count);
	int ret = 0;
	for (size_t i = 0; i < count && ret == 0; i++) {
		const char *colon = strchr(items[i], ':');
		if (!colon || colon == items[i] || !colon[1]) {
			ret = err_set(
				err, BERTH_FAILED, "write accounts as scheme:id, like sasl:yarn@");
		}
	}
	config_free_list(items, count);
	return ret;
}

int config_verify_scope(const char *value, struct err *err)
{
	static const char *const words[] = { "external", "internal", NULL };
	unsigned index;
	return config_parse_word(value, words, &index, err);
}

int config_verify_proxy_name(const char *value, struct err *err)
{
	size_t len = strlen(value);
	if (len <= PROXY_NAME_BYTES && strspn(value, name_bytes) == len) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"a name in HAProxy is made of letters, digits, . _ and -, at most %d of them",
		PROXY_NAME_BYTES);
}

int config_verify_address_type(const char *value, struct err *err)
{
	static const char *const known[] = { "uri", "hostname", "inetaddress", "host/port", "path",
		"zookeeper", "zktriple" };
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(value, known[i]) == 0) {
			return 0;
		}
	}
	if (strncmp(value, "x-", 2) == 0 && value[2]) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"write uri, hostname, inetaddress, host/port, path, zookeeper, "
		"zktriple or a word that begins with x-");
}

/* Digits behind the first colon are a port: localhost:8080 has no scheme. */
int config_verify_uri(const char *value, struct err *err)
{
	static const char scheme_bytes[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-";
	size_t len = strspn(value, scheme_bytes);
	const char *rest = value + len + 1;
	size_t digits = value[len] == ':' ? strspn(rest, "0123456789") : 0;
	bool is_port = digits > 0 && (rest[digits] == '\0' || rest[digits] == '/');
	if (isalpha((unsigned char)*value) && value[len] == ':' && !is_port) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"a URI begins with its scheme, like http://%.60s; for a host and a port alone "
		"there is `address_type = host/port`",
		value);
}

/* `https` as a type deserves more than the list of words that follows any other. */
int config_verify_check_type(const char *value, struct err *err)
{
	if (strcmp(value, "https") != 0) {
		return 0;
	}
	return err_set(
		err, BERTH_FAILED, "write `type = http`, and `target = https://HOST:PORT/PATH`");
}

int config_verify_server_name(const char *value, struct err *err)
{
	size_t len = strlen(value);
	return len <= 253 && strspn(value, name_bytes) == len
		? 0
		: err_set(err, BERTH_FAILED, "write the name of a host, without a port");
}

int config_verify_regex(const char *value, struct err *err)
{
	regex_t compiled;
	int why = regcomp(&compiled, value, REG_EXTENDED | REG_NOSUB);
	if (why) {
		char text[128];
		regerror(why, &compiled, text, sizeof(text));
		return err_set(
			err, BERTH_FAILED, "must be a POSIX extended regular expression: %s", text);
	}
	regfree(&compiled);
	return 0;
}

int config_verify_method(const char *value, struct err *err)
{
	for (const char *at = value; *at; at++) {
		if (!isupper((unsigned char)*at) || at - value >= 32) {
			return err_set(
				err, BERTH_FAILED, "write a method in capitals, like GET or HEAD");
		}
	}
	return 0;
}

int config_verify_host(const char *value, struct err *err)
{
	for (const char *at = value; *at; at++) {
		if (!isalnum((unsigned char)*at) && !strchr(".-_:[]", *at)) {
			return err_set(err, BERTH_FAILED, "write a host name, or host:port");
		}
	}
	return 0;
}

/*
 * Letters of any language, digits, and the signs of names; the value is UTF-8 without control
 * characters.
 */
static bool is_attribute_name(const char *name)
{
	for (const char *at = name; *at; at++) {
		if ((unsigned char)*at < 0x80 && !strchr(name_bytes, *at) && *at != ':') {
			return false;
		}
	}
	size_t len = strlen(name);
	return len > 0 && len <= ATTRIBUTE_NAME_BYTES;
}

int config_verify_selected_name(const char *name, struct err *err)
{
	return is_attribute_name(name)
		? 0
		: err_set(err, BERTH_FAILED,
			  "an attribute's name is made of letters, digits, . "
			  "_ : and -, at most %d bytes",
			  ATTRIBUTE_NAME_BYTES);
}

int config_verify_attribute_name(const char *name, struct err *err)
{
	static const struct {
		const char *name;
		const char *option; /* that sets it */
	} reserved[] = {
		{ "type", NULL },
		{ "external", "[endpoint]" },
		{ "internal", "[endpoint]" },
		{ "description", "`description`" },
		{ "yarn:id", "`id`" },
		{ "yarn:persistence", "`persistence`" },
		{ "berth:health", "`publish_health`" },
		{ HOLDER_MARK, "the agent" },
		{ HOLDER_KEY, "the agent" },
	};
	if (config_verify_selected_name(name, err)) {
		return BERTH_FAILED;
	}
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
		if (strcmp(name, reserved[i].name) == 0 && reserved[i].option) {
			return err_set(err, BERTH_FAILED, "%s sets the attribute %s of a record",
				reserved[i].option, name);
		}
		if (strcmp(name, reserved[i].name) == 0) {
			return err_set(err, BERTH_FAILED, "every record has a %s of its own", name);
		}
	}
	return 0;
}

int config_verify_variable_name(const char *name, struct err *err)
{
	if (config_is_variable_name(name, strlen(name))) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"an environment variable's name is made of letters, digits "
		"and _, and begins with no digit");
}

int config_verify_section_name(const char *name, struct err *err)
{
	size_t len = strlen(name);
	if (len <= SECTION_NAME_BYTES && strspn(name, name_bytes) == len) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"a name is made of letters, digits, . _ and -, at most %d of them",
		SECTION_NAME_BYTES);
}

/* True when `name` is a number; containers often have users that no file knows. */
static bool parse_id(const char *name, unsigned *ret_id)
{
	int64_t id;
	struct err unused = ERR_INIT;
	if (config_parse_integer(name, 0, ID_MAX, &id, &unused)) {
		return false;
	}
	*ret_id = (unsigned)id;
	return true;
}

static int look_up_user(const char *name, char **ret_value, struct err *err)
{
	const struct passwd *user = getpwnam(name + strlen(USER_KEY));
	if (user) {
		*ret_value = allocate_format("%u", user->pw_uid);
	}
	return user ? 0 : err_set(err, BERTH_FAILED, "unknown");
}

static int look_up_group(const char *name, char **ret_value, struct err *err)
{
	const struct group *group = getgrnam(name + strlen(GROUP_KEY));
	if (group) {
		*ret_value = allocate_format("%u", group->gr_gid);
	}
	return group ? 0 : err_set(err, BERTH_FAILED, "unknown");
}

static bool find_id(const char *key, const char *name, config_finder *look_up, unsigned *ret_id)
{
	struct err unknown = ERR_INIT;
	char *id = NULL;
	char *whole = allocate_format("%s%s", key, name);
	bool found = config_found_get(whole, look_up, &id, &unknown) == 0;
	if (found) {
		*ret_id = (unsigned)strtoul(id, NULL, 10);
	}
	free(id);
	free(whole);
	return found;
}

int config_find_user(const char *name, unsigned *ret_id, struct err *err)
{
	return find_id(USER_KEY, name, look_up_user, ret_id) || parse_id(name, ret_id)
		? 0
		: err_set(err, BERTH_FAILED, "there is no user %s here", name);
}

int config_find_group(const char *name, unsigned *ret_id, struct err *err)
{
	return find_id(GROUP_KEY, name, look_up_group, ret_id) || parse_id(name, ret_id)
		? 0
		: err_set(err, BERTH_FAILED, "there is no group %s here", name);
}

/* A command needs the user's groups too, so a number is not enough. */
/* Signals that report a mistake of the process that gets them, or are never delivered. */
static const int not_caught[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGPIPE, SIGSEGV,
	SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ };

int config_verify_stop_on(const char *value, struct err *err)
{
	int number;
	if (config_parse_signal(value, &number, err)) {
		return BERTH_FAILED;
	}
	if (number == SIGHUP || number == SIGUSR2) {
		return err_set(err, BERTH_FAILED, "%s always means %s", value,
			number == SIGHUP ? "a reload" : "an upgrade");
	}
	for (size_t i = 0; i < ARRAY_LEN(not_caught); i++) {
		if (number == not_caught[i]) {
			return err_set(err, BERTH_FAILED, "%s cannot ask the agent to stop", value);
		}
	}
	return 0;
}

int config_verify_user(const char *value, struct err *err)
{
	unsigned id;
	return find_id(USER_KEY, value, look_up_user, &id)
		? 0
		: err_set(err, BERTH_FAILED, "there is no user %s here", value);
}

int config_verify_field_name(const char *name, struct err *err)
{
	static const char token[] = "!#$%&'*+-.^_`|~0123456789"
				    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	return *name && strspn(name, token) == strlen(name)
		? 0
		: err_set(err, BERTH_FAILED, "NAME must be the name of a header");
}

int config_verify_header_name(const char *name, struct err *err)
{
	static const char *const ours[] = { "Host", "Connection", "Content-Length",
		"Transfer-Encoding" };
	if (config_verify_field_name(name, err)) {
		return err_wrap(err, "header.NAME");
	}
	for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
		if (strcasecmp(name, ours[i]) == 0) {
			return err_set(err, BERTH_FAILED, "header.%s: the agent sets this one%s",
				name, i == 0 ? ", see host" : "");
		}
	}
	return 0;
}

int config_verify_limit_name(const char *name, struct err *err)
{
	if (command_limit_resource(name) >= 0) {
		return 0;
	}
	return err_set(
		err, BERTH_FAILED, "limit.NAME: NAME must be one of %s", COMMAND_LIMIT_NAMES);
}

int config_verify_limit(const char *value, struct err *err)
{
	uint64_t limit;
	return config_parse_limit(value, &limit, err);
}
