#include "lib/registry/window.h"

enum {
	EACH_MS = 20,       /* the window grows by this for each confirmation */
	LONGEST_MS = 15000, /* and ends here, or at half of the session's timeout */
	TICK_MS = 10
};

void registry_window_open(
	struct registry_window *window, size_t count, int64_t now_ms, int session_timeout_ms)
{
	int64_t longest_ms = session_timeout_ms / 2;
	if (longest_ms <= 0 || longest_ms > LONGEST_MS) {
		longest_ms = LONGEST_MS;
	}
	int64_t length_ms = (int64_t)count * EACH_MS;
	*window = (struct registry_window){
		.count = count,
		.from_ms = now_ms,
		.length_ms = length_ms < longest_ms ? length_ms : longest_ms,
	};
}

size_t registry_window_due(const struct registry_window *window, int64_t now_ms)
{
	if (window->length_ms == 0) {
		return window->count;
	}
	uint64_t passed_ms = (uint64_t)(now_ms - window->from_ms);
	uint64_t due = passed_ms * window->count / (uint64_t)window->length_ms + 1;
	return due < window->count ? (size_t)due : window->count;
}

int64_t registry_window_next_ms(const struct registry_window *window)
{
	uint64_t offset_ms = (uint64_t)window->begun * (uint64_t)window->length_ms / window->count;
	int64_t at_ms = window->from_ms + (int64_t)offset_ms + 1;
	return (at_ms + TICK_MS - 1) / TICK_MS * TICK_MS;
}
