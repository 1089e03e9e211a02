#include "lib/names/of_path.h"

#include <string.h>

#include "lib/base/limits.h"
#include "lib/base/text.h"

enum { TEXT_BYTES = LIMIT_PATH_BYTES + 1 };

static size_t element_len(const char *at)
{
	return *at ? 1 + strcspn(at + 1, "/") : 0;
}

/* The rest of a path behind an element, or NULL when the path goes on otherwise. */
static const char *behind(const char *at, const char *element)
{
	size_t len = element_len(at);
	return len == strlen(element) && strncmp(at, element, len) == 0 ? at + len : NULL;
}

/* /users/USER/CLASS/INSTANCE, and what is below its node `components`: USER/CLASS/INSTANCE. */
static bool shorten(char out[TEXT_BYTES], const char *path)
{
	const char *net = behind(path, "/net");
	const char *rest = net && *net ? net + element_len(net) : path;
	const char *user = behind(rest, "/users");
	if (!user) {
		return false;
	}
	size_t user_len = element_len(user);
	const char *hadoop = behind(user + user_len, "/services");
	const char *instance = hadoop ? hadoop : user + user_len;
	size_t class_len = element_len(instance);
	size_t instance_len = class_len + element_len(instance + class_len);
	const char *end = instance + instance_len;
	const char *component = behind(end, "/components");
	bool whole = instance_len > class_len &&
		(!*end || (component && *component && !component[element_len(component)]));
	if (whole) {
		text_printf(out, TEXT_BYTES, "%.*s%.*s%.*s", (int)(rest - path), path,
			(int)user_len, user, (int)instance_len, instance);
	}
	return whole;
}

bool names_of_path(char out[NAMES_NAME_BYTES], const char *path)
{
	char shorter[TEXT_BYTES];
	char name[NAMES_NAME_BYTES];
	/* A domain that is taken off again: the name stands for itself. */
	if (!path_dns_name(name, shorten(shorter, path) ? shorter : path, "x")) {
		return false;
	}
	size_t len = strlen(name);
	if (len < sizeof("a.x") - 1) {
		return false;
	}
	memcpy(out, name, len - 2);
	out[len - 2] = '\0';
	return true;
}
