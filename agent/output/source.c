#include "agent/output/source.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

static void on_ready(void *context)
{
	struct output_source *source = context;
	source->complete = true;
	source->callbacks.on_change(source->callbacks.context, source, false);
}

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)path;
	(void)record;
	const struct output_source *source = context;
	if (event != CACHE_STALE) {
		source->callbacks.on_change(
			source->callbacks.context, source, event == CACHE_FRESH);
	}
}

static void on_refused(void *context, const struct err *err)
{
	struct output_source *source = context;
	source->observing = false;
	source->complete = false;
	source->callbacks.on_refused(source->callbacks.context, source, err);
}

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)answer;
	struct output_source *source = context;
	source->confirming = false;
	source->callbacks.on_confirmed(source->callbacks.context, source, err);
}

void output_source_init(struct output_source *source, unsigned rank, struct cache *cache,
	const char *from, const struct output_source_callbacks *callbacks)
{
	static const char all[] = "/**";
	size_t len = strlen(from);
	bool tree = len >= strlen(all) && strcmp(from + len - strlen(all), all) == 0;
	len -= tree ? strlen(all) : 0;
	*source = (struct output_source){ .rank = rank,
		.path = len > 0 ? allocate_bytes(from, len) : allocate_text("/"),
		.tree = tree,
		.callbacks = *callbacks };
	source->cache = cache_at(cache, source->path);
}

void output_source_finish(struct output_source *source)
{
	if (source->observing) {
		cache_unobserve(&source->observer);
	}
	if (source->confirming) {
		cache_cancel(&source->confirmation);
	}
	free(source->path);
}

void output_source_observe(struct output_source *source)
{
	if (source->observing) {
		return;
	}
	source->observer = (struct cache_observer){
		.scope = source->tree ? CACHE_TREE : CACHE_CHILDREN_TOO,
		.on_ready = on_ready,
		.on_event = on_event,
		.on_refused = on_refused,
		.context = source,
	};
	source->observing = true;
	cache_observe(source->cache, source->path, &source->observer);
}

enum cache_verdict output_source_confirm(struct output_source *source, int64_t now_ms)
{
	if (source->confirming) {
		return CACHE_WAITING;
	}
	source->confirmation.on_answer = on_confirmed;
	source->confirmation.context = source;
	enum cache_verdict verdict = cache_confirm(source->cache, now_ms, &source->confirmation);
	source->confirming = verdict == CACHE_WAITING;
	return verdict;
}
