#include "agent/config/container_id.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"

enum { DIGITS = 64 };

static bool is_id(const char *at, const char *end)
{
	for (int i = 0; i < DIGITS; i++) {
		if (!isdigit((unsigned char)at[i]) && !(at[i] >= 'a' && at[i] <= 'f')) {
			return false;
		}
	}
	return end - at == DIGITS || !isalnum((unsigned char)at[DIGITS]);
}

/* The last id of a text in a place of ids; NULL: none. */
static const char *last_id(
	const char *text, const char *end, bool (*is_place)(const char *text, const char *at))
{
	const char *found = NULL;
	for (const char *at = text + 1; end - at >= DIGITS; at++) {
		if (is_id(at, end) && is_place(text, at)) {
			found = at;
		}
	}
	return found;
}

static bool follows(const char *text, const char *at, const char *word)
{
	size_t len = strlen(word);
	return (size_t)(at - text) >= len && strncmp(at - len, word, len) == 0;
}

static bool is_element_below(const char *text, const char *at, const char *word)
{
	return at[-1] == '/' && memmem(text, (size_t)(at - text), word, strlen(word));
}

static bool is_place_of_groups(const char *text, const char *at)
{
	static const char *const words[] = { "/docker/", "docker-", "libpod-", "crio-",
		"cri-containerd-" };
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (follows(text, at, words[i])) {
			return true;
		}
	}
	return is_element_below(text, at, "/kubepods") || is_element_below(text, at, "-kubepods") ||
		is_element_below(text, at, "/ecs/");
}

/* Of Docker, and of podman and CRI-O. */
static bool is_place_of_files(const char *text, const char *at)
{
	return follows(text, at, "/containers/") || follows(text, at, "/overlay-containers/");
}

char *container_id_of_cgroup(const char *text)
{
	const char *found = NULL;
	while (*text && !found) {
		size_t len = strcspn(text, "\n");
		found = last_id(text, text + len, is_place_of_groups);
		text += len + (text[len] == '\n');
	}
	return found ? allocate_bytes(found, DIGITS) : NULL;
}

/* ---- mounts ---- */

struct field {
	const char *text;
	size_t len;
};

/* The field of this number, from 0 on, of a line. */
static struct field field_of(const char *line, size_t len, int number)
{
	const char *end = line + len;
	for (; number > 0 && line < end; number--) {
		line += strcspn(line, " \n");
		line += *line == ' ';
	}
	return (struct field){ line, line < end ? strcspn(line, " \n") : 0 };
}

static bool is(struct field field, const char *text)
{
	return field.len == strlen(text) && memcmp(field.text, text, field.len) == 0;
}

static bool ends_with(struct field field, const char *text)
{
	size_t len = strlen(text);
	return field.len >= len && memcmp(field.text + field.len - len, text, len) == 0;
}

struct tell_tales {
	const char *own;    /* of the container's own directory */
	const char *shared; /* of a file that Kubernetes mounts from the sandbox's */
	bool kubernetes;    /* the kubelet mounts its own /etc/hosts */
};

static void look_at(struct tell_tales *found, const char *line, size_t len)
{
	struct field source = field_of(line, len, 3);
	struct field place = field_of(line, len, 4);
	const char *id = last_id(source.text, source.text + source.len, is_place_of_files);
	if (is(place, "/run/.containerenv")) {
		found->own = id ? id : found->own;
	} else if (is(place, "/etc/hostname") || is(place, "/etc/hosts") ||
		is(place, "/etc/resolv.conf")) {
		found->kubernetes = found->kubernetes || ends_with(source, "/etc-hosts");
		found->shared = id ? id : found->shared;
	}
}

char *container_id_of_mounts(const char *text)
{
	struct tell_tales found = { 0 };
	while (*text) {
		size_t len = strcspn(text, "\n");
		look_at(&found, text, len);
		text += len + (text[len] == '\n');
	}
	const char *id = found.own || found.kubernetes ? found.own : found.shared;
	return id ? allocate_bytes(id, DIGITS) : NULL;
}
