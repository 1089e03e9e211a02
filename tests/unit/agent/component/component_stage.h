/*
 * A whole component on a registry in memory: what its checks, gate, damping, siblings and dialects
 * make of its record.
 */
#ifndef TESTS_UNIT_AGENT_COMPONENT_COMPONENT_STAGE_H
#define TESTS_UNIT_AGENT_COMPONENT_COMPONENT_STAGE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/registry_loop.h"
#include "agent/component/component.h"
#include "lib/base/array.h"
#include "lib/record/record.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/registry_script.h"
#include "tests/support/run_until.h"
#include "tests/support/scratch.h"

static const char PATH[] = "/app/c2";
static const char *const parents[] = { "//spring", "//spring/app", "//spring/app2", "//spring/app3",
	"//example", "//example/web" };

struct stage {
	struct registry_script script; /* first */
	bool disk_hangs;               /* what is to be noted is not on the disk */
	struct ev_loop *loop;
	struct registry *registry;
	struct registry_loop driver;
	struct check_scheduler *scheduler;
	struct check_set *checks;
	struct config *config;
	struct component *component;
	int64_t update_interval_ms;
	json_t *persistent; /* a predecessor's notes, by path; or NULL */
	int announced;      /* on_announced */
	int writes;         /* on_write */
	char trail[2048];   /* the transitions: "subject from>to; ", with "!" for trouble */
	char whys[4096];    /* their reasons */
};

#define HTTP                                                                                       \
	"[endpoint http]\napi = web\nprotocol = http\naddress_type = host/port\n"                  \
	"address = 10.9.8.7:8080\n"
static inline void add(char *text, size_t size, const char *part)
{
	size_t used = strlen(text);
	snprintf(text + used, size - used, "%s; ", part);
}

static inline void on_transition(void *context, const struct transition *transition)
{
	struct stage *stage = context;
	char line[300];
	cr_expect_str_eq(transition->component, "c2");
	snprintf(line, sizeof(line), "%s %s>%s%s", transition->subject, transition->from,
		transition->to, transition->trouble ? "!" : "");
	add(stage->trail, sizeof(stage->trail), line);
	add(stage->whys, sizeof(stage->whys), transition->why);
}

static inline void on_announced(void *context, struct component *component)
{
	(void)component;
	((struct stage *)context)->announced++;
}

static inline bool on_write(void *context, struct component *component)
{
	struct stage *stage = context;
	(void)component;
	stage->writes++;
	return !stage->disk_hangs;
}

static inline void on_registry_state(void *context, enum registry_state state, const char *why)
{
	const struct stage *stage = context;
	if (stage->component) {
		component_on_registry_state(stage->component, state, why);
	}
}

static inline void on_result(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	(void)check;
	(void)result;
}

static inline void on_check_change(
	void *context, struct check *check, const char *from, const char *to, const char *why)
{
	(void)from;
	(void)to;
	(void)why;
	const struct stage *stage = context;
	component_check_changed(stage->component, check);
}

static inline struct config *load(const char *text)
{
	char folder[SCRATCH_PATH];
	char path[SCRATCH_PATH + 16];
	scratch_folder(folder);
	snprintf(path, sizeof(path), "%s/berth.ini", folder);
	FILE *file = fopen(path, "w");
	cr_assert_not_null(file);
	fprintf(file, "[component]\npath = %s\n%s", PATH, text);
	fclose(file);
	struct config *config = NULL;
	struct config_problems problems;
	int code = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	config_problems_finish(&problems);
	cr_assert_eq(code, 0);
	unlink(path);
	rmdir(folder);
	return config;
}

static inline struct component_environment environment_of(struct stage *stage)
{
	return (struct component_environment){
		.loop = stage->loop,
		.registry = stage->registry,
		.lookups = stage->registry,
		.checks = stage->checks,
		.persistent = stage->persistent,
		.update_interval_ms = stage->update_interval_ms,
		.on_transition = on_transition,
		.on_announced = on_announced,
		.on_write = on_write,
		.context = stage,
	};
}

static inline void component_anew(struct stage *stage, const json_t *saved)
{
	const struct component_environment environment = environment_of(stage);
	component_destroy(stage->component);
	stage->component = component_create(&environment, &stage->config->components[0], saved);
}

static inline void checks_anew(struct stage *stage)
{
	const struct check_callbacks callbacks = { on_result, on_check_change, NULL, stage };
	check_set_destroy(stage->checks);
	stage->checks = check_set_create(stage->scheduler, &callbacks);
	check_set_arrange(stage->checks, stage->config, NULL);
}

static inline struct stage *stage_begin(struct stage *stage, const char *text)
{
	*stage = (struct stage){ .loop = ev_loop_new(EVFLAG_AUTO), .config = load(text) };
	const struct registry_options registry = {
		.foreign_paths = true, .on_state = on_registry_state, .context = stage
	};
	stage->registry = memory_open("component", &registry);
	registry_loop_init(&stage->driver, stage->loop, stage->registry);
	stage->scheduler = check_scheduler_create(stage->loop, 4);
	for (size_t i = 0; i < ARRAY_LEN(parents); i++) {
		memory_put(stage->registry, parents[i], "");
	}
	checks_anew(stage);
	component_anew(stage, NULL);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	return stage;
}

static inline void stage_end(struct stage *stage)
{
	component_destroy(stage->component);
	check_set_destroy(stage->checks);
	check_scheduler_destroy(stage->scheduler);
	config_unref(stage->config);
	json_decref(stage->persistent);
	registry_loop_finish(&stage->driver);
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

/* A reload with another configuration, whose checks stay as they are. */
static inline void reload(struct stage *stage, const char *text)
{
	struct config *config = load(text);
	check_set_arrange(stage->checks, config, NULL);
	const struct component_environment environment = environment_of(stage);
	component_reload(stage->component, &config->components[0], &environment);
	config_unref(stage->config);
	stage->config = config;
}

static inline void report(struct stage *stage, const char *name, enum check_verdict verdict)
{
	struct err err = ERR_INIT;
	struct check *check = check_set_find(stage->checks, name);
	cr_assert_eq(check_report(check, verdict, "by its report", &err), 0, "%s", err.msg);
}

static inline enum announce_state state_of(const struct stage *stage)
{
	return announce_get_state(component_announce(stage->component));
}

static inline bool explains(const struct stage *stage, const char *text)
{
	return strstr(announce_why(component_announce(stage->component)), text) != NULL;
}

#endif
