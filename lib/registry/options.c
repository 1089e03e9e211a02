/* Checks of a registry's options before anything is opened. */
#include "lib/base/array.h"
#include "lib/registry/internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/registry/url.h"

enum {
	DEFAULT_SESSION_TIMEOUT_MS = 30000,
	DEFAULT_REQUEST_TIMEOUT_MS = 10000,
	DEFAULT_CLOSE_TIMEOUT_MS = 900 /* registry_close() promises a second */
};

/* Which backend serves which URLs. */
static const struct registry_backend_ops *const backends[] = {
	[REGISTRY_URL_DIR] = &registry_dir_ops,
	[REGISTRY_URL_HOST] = &registry_host_ops,
	[REGISTRY_URL_ZOOKEEPER] = &registry_zk_ops,
};

_Static_assert(ARRAY_LEN(backends) == REGISTRY_URL_KINDS, "each kind of URL has a backend");

struct registry_options registry_options_complete(const struct registry_options *options)
{
	struct registry_options all = *options;
	if (all.session_timeout_ms <= 0) {
		all.session_timeout_ms = DEFAULT_SESSION_TIMEOUT_MS;
	}
	if (all.request_timeout_ms <= 0) {
		all.request_timeout_ms = DEFAULT_REQUEST_TIMEOUT_MS;
	}
	if (all.close_timeout_ms <= 0) {
		all.close_timeout_ms = DEFAULT_CLOSE_TIMEOUT_MS;
	}
	all.url = all.url ? all.url : "";
	all.auth = all.auth && *all.auth ? all.auth : "none";
	all.auth_file = all.auth_file ? all.auth_file : "";
	all.tls_ca = all.tls_ca ? all.tls_ca : "";
	all.tls_cert = all.tls_cert ? all.tls_cert : "";
	all.tls_key = all.tls_key ? all.tls_key : "";
	all.tls_passphrase_file = all.tls_passphrase_file ? all.tls_passphrase_file : "";
	all.system_accounts = all.system_accounts ? all.system_accounts : "";
	all.write_accessors = all.write_accessors ? all.write_accessors : "";
	all.at = all.at ? all.at : "";
	all.hidden = all.hidden ? all.hidden : "";
	all.realm = all.realm ? all.realm : "";
	return all;
}

const struct registry_backend_ops *registry_backend_of(const char *url, const char **ret_rest)
{
	enum registry_url_kind kind = REGISTRY_URL_DIR;
	*ret_rest = registry_url_rest(url, &kind);
	return *ret_rest ? backends[kind] : NULL;
}

bool registry_is_url(const char *text)
{
	enum registry_url_kind kind;
	return registry_url_rest(text, &kind) != NULL;
}

static int check_auth(const struct registry_options *options, struct err *err)
{
	static const char *const known[] = { "none", "digest", "sasl" };
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(options->auth, known[i]) == 0) {
			return 0;
		}
	}
	return err_set(err, BERTH_FAILED, "auth = %s is unknown; allowed are none, digest and sasl",
		options->auth);
}

static int check_auth_file(const struct registry_options *options, struct err *err)
{
	return strcmp(options->auth, "digest") == 0
		? registry_auth_file_check(options->auth_file, err)
		: 0;
}

static int check_accounts(const struct registry_options *options, struct err *err)
{
	struct registry_acl_policy policy = { .realm = NULL };
	char *warning = NULL;
	int code = registry_acl_policy_init(&policy, options, &warning, err);
	free(warning);
	registry_acl_policy_finish(&policy);
	return code;
}

/* A container has none, whatever it says: its backend tells why. */
static int check_identity(const struct registry_options *options, struct err *err)
{
	const char *rest;
	bool hosted = registry_backend_of(options->url, &rest) == &registry_host_ops;
	return options->secure && strcmp(options->auth, "none") == 0 && !hosted
		? err_set(err, BERTH_FAILED,
			  "secure = yes needs auth = digest or sasl: without an identity no client "
			  "could change the nodes")
		: 0;
}

static int check_url(const struct registry_options *options, struct err *err)
{
	struct registry_url url;
	return registry_url_parse(&url, options->url, err);
}

int registry_options_check(
	const struct registry_options *options, const char **ret_option, struct err *err)
{
	static const struct {
		const char *option;
		int (*check)(const struct registry_options *options, struct err *err);
	} checks[] = { { "url", check_url }, { "auth", check_auth }, { "secure", check_identity },
		{ "auth_file", check_auth_file }, { "system_accounts", check_accounts } };
	const struct registry_options none = { 0 };
	const struct registry_options all = registry_options_complete(options ? options : &none);
	const char *at_fault = "url";
	const char *rest;
	int code = 0;
	for (size_t i = 0; code == 0 && i < ARRAY_LEN(checks); i++) {
		at_fault = checks[i].option;
		code = checks[i].check(&all, err);
	}
	const struct registry_backend_ops *backend = code == 0 ? registry_backend_of(all.url, &rest)
							       : NULL;
	if (backend) {
		code = backend->check(&all, &at_fault, err);
	}
	if (code != 0 && ret_option) {
		*ret_option = at_fault;
	}
	return code;
}
