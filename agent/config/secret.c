#include "agent/config/secret.h"

#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"

enum { MASKED_BYTES_MAX = 1024 * 1024 };

bool config_name_is_secret(const char *name)
{
	static const char *const words[] = { "password", "passwd", "passphrase", "secret", "token",
		"key", "credential", "private", "authorization", "cookie" };
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcasestr(name, words[i])) {
			return true;
		}
	}
	return false;
}

/* Copies text, with **** between the first : and the last @ of each URL's authority. */
static char *mask_urls(const char *text)
{
	static const char scheme_end[] = "://";
	struct buffer masked;
	buffer_init(&masked, MASKED_BYTES_MAX);
	const char *url;
	while ((url = strstr(text, scheme_end))) {
		const char *authority = url + strlen(scheme_end);
		size_t len = strcspn(authority, "/?# \t\"'");
		const char *at = memrchr(authority, '@', len);
		const char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
		const char *next = authority + len;
		if (colon) {
			buffer_append(&masked, text, (size_t)(colon + 1 - text));
			buffer_append_text(&masked, CONFIG_MASK);
			buffer_append(&masked, at, (size_t)(next - at));
		} else {
			buffer_append(&masked, text, (size_t)(next - text));
		}
		text = next;
	}
	buffer_append_text(&masked, text);
	char *result = allocate_text(buffer_text(&masked));
	buffer_finish(&masked);
	return result;
}

char *config_mask(const struct config_option *option, const char *key, const char *value)
{
	if (option->masks_secrets && config_name_is_secret(key + strlen(option->key))) {
		return allocate_text(CONFIG_MASK);
	}
	return mask_urls(value);
}
