/*
 * Registry URLs: each is parsed or refused with a reason; what is parsed holds valid parts, and is
 * shown without a secret; the display of any text can be shown again unchanged.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/registry/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(const struct registry_url *url)
{
	assert(url->path[0] == '/' && strlen(url->path) < sizeof(url->path));
	assert((url->kind == REGISTRY_URL_DIR) == (url->servers_count == 0));
	assert(url->kind == REGISTRY_URL_DIR ||
		path_root_check(url->path, strlen(url->path), NULL) == 0);
	assert(url->servers_count <= REGISTRY_URL_MAX_SERVERS);
	for (size_t i = 0; i < url->servers_count; i++) {
		int port = atoi(url->servers[i].port);
		assert(url->servers[i].host[0] && !strpbrk(url->servers[i].host, "/,@ "));
		assert(port >= 1 && port <= 65535);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct registry_url url;
	static struct registry_url again;
	struct err err = ERR_INIT;
	char *text = strndup((const char *)data, len);
	assert(text);
	int code = registry_url_parse(&url, text, &err);
	assert(code == err.code && (code == 0 || err.msg[0]));
	char *shown = registry_url_display(text);
	assert(shown);
	if (code == 0) {
		check(&url);
		assert(registry_url_parse(&again, shown, &err) == 0);
		/* dir:// may be meant as another scheme, and is masked like one. */
		assert(strncmp(url.path, "//", 2) == 0 || strcmp(again.path, url.path) == 0);
		assert(again.tls == url.tls && again.servers_count == url.servers_count);
	}
	err_clear(&err);
	if (registry_url_parse_servers(&url, text, &err) == 0) {
		check(&url);
	}
	free(shown);
	free(text);
	return 0;
}
