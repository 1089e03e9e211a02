#include "xds/name.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/text.h"
#include "lib/program/memory.h"

enum { DNS_NAME_MAX = 253, LABEL_MAX = 63, ELEMENTS_MAX = 128, INSTANCE_DEPTH = 4 };

/* Elements of a path, from the root down; borrowed. */
struct elements {
	const char *registry; /* NULL, or NAME: the path lies below /net/NAME */
	const char *at[ELEMENTS_MAX];
	size_t count;
};

/* ---- from a name to paths ---- */

/* `guard`: the number of elements that are the guard; 0: none. */
static void add_place(struct name_meaning *meaning, enum name_shape shape,
	const struct elements *elements, size_t guard)
{
	char path[NAME_TEXT_BYTES] = "";
	size_t used = 0;
	size_t guard_len = 0;
	if (elements->registry) {
		used = (size_t)snprintf(path, sizeof(path), "/net/%s", elements->registry);
	}
	for (size_t i = 0; i < elements->count && used < sizeof(path); i++) {
		guard_len = i < guard ? used + 1 + strlen(elements->at[i]) : guard_len;
		used += (size_t)snprintf(path + used, sizeof(path) - used, "/%s", elements->at[i]);
	}
	if (used < sizeof(path) && path_check(path, used, NULL) == 0) {
		meaning->places = memory_grow(
			meaning->places, meaning->count, sizeof(*meaning->places));
		meaning->places[meaning->count++] = (struct name_place){ .shape = shape,
			.path = memory_text(path, used),
			.guard_len = guard_len < used ? guard_len : 0 };
	}
}

static struct elements insert(const struct elements *elements, size_t index, const char *element)
{
	struct elements longer = { .registry = elements->registry, .count = elements->count + 1 };
	for (size_t i = 0; i < longer.count; i++) {
		longer.at[i] = i < index ? elements->at[i]
			: i == index     ? element
					 : elements->at[i - 1];
	}
	return longer;
}

/* Elements below /users: as they are, and with the levels that may be left out put back. */
static void add_below_users(struct name_meaning *meaning, const struct elements *elements)
{
	bool hadoop = elements->count > 2 && strcmp(elements->at[2], "services") == 0;
	size_t instance = hadoop ? INSTANCE_DEPTH + 1 : INSTANCE_DEPTH;
	add_place(meaning, elements->count == instance ? NAME_INSTANCE : NAME_NODE, elements, 0);
	if (elements->count == instance + 1 && strcmp(elements->at[instance], "components") != 0) {
		struct elements component = insert(elements, instance, "components");
		add_place(meaning, NAME_NODE, &component, 0);
	}
	if (!hadoop &&
		(elements->count == INSTANCE_DEPTH || elements->count == INSTANCE_DEPTH + 1)) {
		struct elements longer = insert(elements, 2, "services");
		if (elements->count == INSTANCE_DEPTH + 1) {
			longer = insert(&longer, INSTANCE_DEPTH + 1, "components");
		}
		add_place(meaning, elements->count == INSTANCE_DEPTH ? NAME_INSTANCE : NAME_NODE,
			&longer, 3);
	}
}

/* Splits at the dots, in place; the last label becomes the first element. */
static bool split(struct elements *ret_elements, char *text)
{
	struct elements labels = { .count = 0 };
	for (char *at = text; at; at = strchr(at, '.')) {
		if (at != text) {
			*at++ = '\0';
		}
		if (labels.count == ELEMENTS_MAX - 3) {
			return false;
		}
		labels.at[labels.count++] = at;
	}
	ret_elements->count = labels.count;
	for (size_t i = 0; i < labels.count; i++) {
		ret_elements->at[i] = labels.at[labels.count - 1 - i];
	}
	return true;
}

/* The elements of /net/NAME/… become those of the path in that registry. */
static void take_registry(struct elements *elements)
{
	elements->registry = NULL;
	if (elements->count > 2 && strcmp(elements->at[0], "net") == 0) {
		elements->registry = elements->at[1];
		elements->count -= 2;
		memmove(elements->at, elements->at + 2, elements->count * sizeof(*elements->at));
	}
}

/* Takes _http._tcp. off the front; false when nothing can be behind it. */
static bool take_service(struct name_meaning *meaning, char **text)
{
	static const char *const transports[] = { "._tcp.", "._udp." };
	const char *dot = strchr(*text, '.');
	if ((*text)[0] != '_') {
		return true;
	}
	for (size_t i = 0; dot && i < ARRAY_LEN(transports); i++) {
		size_t len = (size_t)(dot - *text) - 1;
		if (strncmp(dot, transports[i], strlen(transports[i])) == 0 && len > 0 &&
			len <= LABEL_MAX) {
			meaning->service = memory_text(*text + 1, len);
			*text += len + 1 + strlen(transports[i]);
			return true;
		}
	}
	return false;
}

/* Adds a line to a text of lines; `name` and `value` are not terminated. */
static void add_line(
	char **lines, const char *name, size_t name_len, const char *value, size_t value_len)
{
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	buffer_append_text(&out, *lines ? *lines : "");
	buffer_printf(&out, "%.*s=%.*s\n", (int)name_len, name, (int)value_len, value);
	free(*lines);
	*lines = memory_text(buffer_text(&out), out.len);
	buffer_finish(&out);
}

/* Takes canary.track._attr. off the front, as often as it is there. */
static void take_attributes(struct name_meaning *meaning, char **text)
{
	static const char mark[] = "._attr.";
	for (;;) {
		size_t value_len = strcspn(*text, ".");
		const char *name = *text + value_len + ((*text)[value_len] == '.');
		size_t name_len = strcspn(name, ".");
		if (value_len == 0 || name_len == 0 ||
			strncmp(name + name_len, mark, strlen(mark)) != 0) {
			return;
		}
		add_line(&meaning->labels, name, name_len, *text, value_len);
		*text = (char *)(uintptr_t)name + name_len + strlen(mark);
	}
}

/* Reads attribute.NAME=VALUE&… behind a question mark; false for other text. */
static bool read_selection(struct name_meaning *meaning, const char *query)
{
	static const char prefix[] = "attribute.";
	while (*query) {
		size_t len = strcspn(query, "&");
		const char *equals = memchr(query, '=', len);
		if (strncmp(query, prefix, strlen(prefix)) != 0 || !equals) {
			return false;
		}
		const char *name = query + strlen(prefix);
		add_line(&meaning->selection, name, (size_t)(equals - name), equals + 1,
			(size_t)(query + len - equals - 1));
		query += len + (query[len] == '&');
	}
	return true;
}

static void take_domain(char *text, const char *domain)
{
	size_t len = strlen(text);
	size_t domain_len = strlen(domain);
	if (len > domain_len + 1 && text[len - domain_len - 1] == '.' &&
		strcmp(text + len - domain_len, domain) == 0) {
		text[len - domain_len - 1] = '\0';
	}
}

/* The length of a name without a port behind it. */
static size_t len_without_port(const char *name, size_t len)
{
	enum { PORT_DIGITS = 5 };
	const char *colon = memrchr(name, ':', len);
	size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
	bool is_port = digits > 0 && digits <= PORT_DIGITS && colon + 1 + digits == name + len;
	return is_port ? (size_t)(colon - name) : len;
}

static void read_path(struct name_meaning *meaning, const char *path, size_t len)
{
	if (path_check(path, len, NULL) == 0) {
		meaning->places = memory_zeroed(1, sizeof(*meaning->places));
		meaning->places[0] = (struct name_place){ .shape = NAME_CHILDREN,
			.path = memory_text(path, len) };
		meaning->count = 1;
	}
}

void name_read(struct name_meaning *ret_meaning, const char *name, const char *domain)
{
	char text[DNS_NAME_MAX + 2];
	struct name_meaning *meaning = ret_meaning;
	struct elements elements;
	*meaning = (struct name_meaning){ .count = 0 };
	size_t len = strcspn(name, "?");
	if (name[len] == '?' && !read_selection(meaning, name + len + 1)) {
		return;
	}
	len = len_without_port(name, len);
	if (name[0] == '/') {
		read_path(meaning, name, len);
		return;
	}
	if (len > 0 && name[len - 1] == '.') {
		len--;
	}
	/* A slash would make two elements of a label. */
	if (len == 0 || len > DNS_NAME_MAX || memchr(name, '/', len)) {
		return;
	}
	for (size_t i = 0; i < len; i++) {
		text[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
	}
	text[len] = '\0';
	char *rest = text;
	take_domain(text, domain);
	if (!take_service(meaning, &rest)) {
		return;
	}
	take_attributes(meaning, &rest);
	if (!split(&elements, rest)) {
		return;
	}
	take_registry(&elements);
	if (strcmp(elements.at[0], "users") == 0) {
		add_below_users(meaning, &elements);
		return;
	}
	add_place(meaning, NAME_NODE, &elements, 1);
	struct elements below_users = insert(&elements, 0, "users");
	add_below_users(meaning, &below_users);
}

void name_meaning_below(struct name_meaning *meaning, const char *root)
{
	size_t kept = 0;
	for (size_t i = 0; *root && i < meaning->count; i++) {
		struct name_place place = meaning->places[i];
		char path[NAME_TEXT_BYTES];
		size_t len = (size_t)snprintf(path, sizeof(path), "%s%s", root,
			strcmp(place.path, "/") == 0 ? "" : place.path);
		free(place.path);
		if (len < sizeof(path)) {
			place.path = memory_text(path, len);
			place.guard_len += place.guard_len > 0 ? strlen(root) : 0;
			meaning->places[kept++] = place;
		}
	}
	meaning->count = *root ? kept : meaning->count;
}

void name_meaning_finish(struct name_meaning *meaning)
{
	for (size_t i = 0; i < meaning->count; i++) {
		free(meaning->places[i].path);
	}
	free(meaning->places);
	free(meaning->service);
	free(meaning->labels);
	free(meaning->selection);
	*meaning = (struct name_meaning){ .count = 0 };
}

/* ---- from a path to a name ---- */

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
static bool shorten(char out[NAME_TEXT_BYTES], const char *path)
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
		text_printf(out, NAME_TEXT_BYTES, "%.*s%.*s%.*s", (int)(rest - path), path,
			(int)user_len, user, (int)instance_len, instance);
	}
	return whole;
}

bool name_of_path(char out[PATH_DNS_NAME_BYTES], const char *path)
{
	char shorter[NAME_TEXT_BYTES];
	char name[PATH_DNS_NAME_BYTES];
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
