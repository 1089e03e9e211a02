/*
 * Where the registration meets other folders: the calls of REGISTRATION_WRAPPED in tests.mk come
 * here. A registry that is opened is one in memory. `seams.told` notes the calls of the API, of the
 * cache, of the shared map and of the bridge.
 */
#ifndef TESTS_UNIT_AGENT_REGISTRATION_SEAMS_H
#define TESTS_UNIT_AGENT_REGISTRATION_SEAMS_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/api/api.h"
#include "agent/base/metrics.h"
#include "agent/base/tcp_ports.h"
#include "agent/base/timer.h"
#include "agent/bridge/bridge.h"
#include "agent/cache/cache.h"
#include "agent/shared/shared.h"
#include "tests/support/memory_backend.h"

/* In place of a part of the agent that is only called. */
#define NEIGHBOUR ((void *)&seams)

enum { MOST_OPENINGS = 8 };

static struct {
	char told[2048]; /* "cache connected; api follows; " */
	struct {
		struct registry_options options; /* its texts as long as the configuration */
		char session[256];               /* as JSON text; "" without one */
	} opened[MOST_OPENINGS];
	int openings;
	struct tcp_ports ports;
} seams;

static inline void note(const char *who, const char *what)
{
	size_t used = strlen(seams.told);
	snprintf(seams.told + used, sizeof(seams.told) - used, "%s %s; ", who, what);
}

/* Has `seams.told` this since the last call? */
static inline bool was_told(const char *what)
{
	bool found = strstr(seams.told, what) != NULL;
	seams.told[0] = '\0';
	return found;
}

int __wrap_registry_open(
	struct registry **ret_registry, const struct registry_options *options, struct err *err)
{
	cr_assert_lt(seams.openings, MOST_OPENINGS);
	int number = seams.openings++;
	seams.opened[number].options = *options;
	char *session = options->session ? json_dumps(options->session, JSON_COMPACT) : NULL;
	snprintf(seams.opened[number].session, sizeof(seams.opened[number].session), "%s",
		session ? session : "");
	free(session);
	(void)err;
	const char *name = strncmp(options->url, "host:", 5) == 0 ? "host" : "registry";
	*ret_registry = memory_open(name, options);
	memory_let_resume(*ret_registry);
	return 0;
}

int __wrap_registry_reauthenticate(struct registry *registry, struct err *err)
{
	(void)registry;
	return err_set(err, BERTH_FAILED, "the test refuses them");
}

int __wrap_tcp_ports_read(struct tcp_ports *ret, const char *directory, struct err *err)
{
	cr_expect_str_eq(directory, "/proc/self/net");
	(void)err;
	*ret = seams.ports;
	return 0;
}

void __wrap_api_agent_changed(struct api *api)
{
	cr_assert_eq((void *)api, NEIGHBOUR);
	note("api", "changed");
}

void __wrap_api_follows_changed(struct api *api)
{
	cr_assert_eq((void *)api, NEIGHBOUR);
	note("api", "follows");
}

void __wrap_api_drain_saved(struct api *api)
{
	cr_assert_eq((void *)api, NEIGHBOUR);
	note("api", "drain saved");
}

void __wrap_shared_on_registry_state(struct shared *shared, enum registry_state state)
{
	(void)shared;
	note("shared", registry_state_name(state));
}

void __wrap_cache_on_registry_state(struct cache *cache, enum registry_state state)
{
	(void)cache;
	note("cache", registry_state_name(state));
}

void __wrap_bridge_on_registry_state(
	struct bridge *bridge, enum registry_state state, const char *why)
{
	cr_assert_eq((void *)bridge, NEIGHBOUR);
	note("bridge", registry_state_name(state));
	note("because", why);
}

/* ---- help ---- */

/* Its time is over. */
static inline void end_timer(struct timer *timer)
{
	cr_assert(timer_runs(timer), "%s", timer->what);
	timer_stop(timer);
	timer->on_end(timer->context);
}

/* From now on the log is kept for was_logged(). */
static inline void keep_log(void)
{
	int log = memfd_create("log", MFD_CLOEXEC);
	cr_assert_geq(log, 0);
	cr_assert_eq(dup2(log, STDERR_FILENO), STDERR_FILENO);
	close(log);
}

/* Was this logged since the last call? */
static inline bool was_logged(const char *text)
{
	static char lines[65536];
	ssize_t len = pread(STDERR_FILENO, lines, sizeof(lines) - 1, 0);
	cr_assert_geq(len, 0);
	lines[len] = '\0';
	cr_assert_eq(ftruncate(STDERR_FILENO, 0), 0);
	cr_assert_eq(lseek(STDERR_FILENO, 0, SEEK_SET), 0);
	return strstr(lines, text) != NULL;
}

/* Is this a line of the metrics? */
static inline bool measures(const struct metrics *metrics, const char *line)
{
	struct buffer text;
	char whole[512];
	snprintf(whole, sizeof(whole), "\n%s\n", line);
	buffer_init(&text, 1 << 20);
	metrics_write(metrics, METRICS_PROMETHEUS, &text);
	bool found = strstr(buffer_text(&text), whole) != NULL;
	buffer_finish(&text);
	return found;
}

#endif
