#include "agent/api/question.h"

#include <stdlib.h>
#include <string.h>

#include "agent/config/value.h"
#include "lib/base/path.h"
#include "lib/names/text.h"

enum { HOLD_MOST_MS = 24 * 3600 * 1000 };

static bool read_kind(const struct http_request *request, const char *rest,
	struct api_set_question *to, struct err *err)
{
	static const char *const words[] = { "path", "name", "names" };
	char word[8];
	bool is_name = strchr(rest, '.') || rest[0] == '_';
	to->key.kind = is_name ? SET_OF_NAME : SET_OF_PATH;
	if (http_parameter(request, "as", word, sizeof(word), err) > 0 && *word) {
		int kind = SET_NAMES;
		while (kind >= 0 && strcmp(word, words[kind]) != 0) {
			kind--;
		}
		to->key.kind = kind >= 0 ? (enum set_kind)kind : SET_OF_PATH;
		if (kind < 0) {
			err_set(err, BERTH_FAILED,
				"query parameter as: must be path, name or names");
		}
	}
	to->key.what = to->key.kind == SET_OF_NAME ? rest : rest - 1;
	return err->code == 0;
}

static bool read_further(const struct api *api, const struct http_request *request,
	struct api_set_question *to, struct err *err)
{
	const struct api_options *options = &api->options;
	struct set_key *key = &to->key;
	char text[32];
	int found = http_parameter(
		request, "failover", to->further_text, sizeof(to->further_text), err);
	bool none = found > 0 && strcmp(to->further_text, "none") == 0;
	key->hold_ms = options->failover_hold_ms;
	/* As in other look-ups: a name fails over, a path does by nearness. */
	if (!*to->further_text &&
		(key->kind == SET_OF_NAME || (key->kind == SET_OF_PATH && key->near))) {
		key->further = options->failover;
		key->further_count = options->failover_count;
	}
	char *rest = NULL;
	for (char *path = strtok_r(to->further_text, ",", &rest); path && !none && !err->code;
		path = strtok_r(NULL, ",", &rest)) {
		if (path_check(path, strlen(path), err)) {
			err_wrap(err, "query parameter failover");
			err->code = BERTH_FAILED;
		} else if (key->further_count == API_SET_FURTHER_MOST) {
			err_set(err, BERTH_FAILED, "query parameter failover: %d paths at most",
				API_SET_FURTHER_MOST);
		} else {
			to->further[key->further_count++] = path;
		}
		key->further = to->further;
	}
	if (!err->code && http_parameter(request, "hold", text, sizeof(text), err) > 0 &&
		config_parse_duration(text, 0, HOLD_MOST_MS, &key->hold_ms, err)) {
		err_wrap(err, "query parameter hold");
	}
	return err->code == 0;
}

static bool read_least(const struct http_request *request, struct set_key *key, struct err *err)
{
	char text[16];
	char *end = text;
	if (http_parameter(request, "min", text, sizeof(text), err) <= 0 || !*text) {
		return err->code == 0;
	}
	unsigned long least = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
	if (end == text || *end || least > 1000000) {
		err_set(err, BERTH_FAILED, "query parameter min: must be a number up to 1000000");
	}
	key->least = (unsigned)least;
	return err->code == 0;
}

bool api_read_set_question(const struct api *api, const struct http_request *request,
	const char *rest, struct api_set_question *to, struct err *err)
{
	struct cache_filter filter;
	*to = (struct api_set_question){ .key = { .kind = SET_OF_PATH } };
	bool good = api_read_filter(api, request, &filter, &to->filter, err) &&
		read_kind(request, rest, to, err);
	to->key.near = filter.near;
	to->key.filter = (struct render_filter){ filter.api, filter.protocol, filter.scope,
		filter.attributes };
	if (!good || !read_further(api, request, to, err) || !read_least(request, &to->key, err)) {
		return false;
	}
	if (to->key.kind != SET_OF_NAME) {
		return path_check(to->key.what, strlen(to->key.what), err) == 0;
	}
	return strlen(rest) < NAMES_NAME_BYTES ||
		!err_set(err, BERTH_FAILED, "a name has at most 253 bytes");
}
