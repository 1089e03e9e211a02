/*
 * A registry in memory: the model that real backends are compared with, and a stage for races and
 * failures.
 *
 * Registries opened with memory_open() under one name share a tree, which lives as long as one of
 * them. Each has its own session. Nothing happens but in registry_dispatch(), so that a test
 * decides the order of everything.
 */
#ifndef TESTS_SUPPORT_MEMORY_BACKEND_H
#define TESTS_SUPPORT_MEMORY_BACKEND_H

#include "lib/registry/backend.h"

extern const struct registry_backend_ops memory_ops;

/* Aborts on failure. options->url is not looked at. */
struct registry *memory_open(const char *name, const struct registry_options *options);

/* At the next dispatch. LOST deletes the session's ephemeral nodes, and makes a new session. */
void memory_set_state(struct registry *registry, enum registry_state state);
/* From now on LOST is a wrong presumption: the server lets the session live on. */
void memory_keep_session(struct registry *registry);
/* From now on a successor may continue the session: registry_session() and registry_detach(). */
void memory_let_resume(struct registry *registry);

/* False: like a stopped server, the registry answers and notifies nothing, until true is set. */
void memory_set_answering(struct registry *registry, bool answering);
/* Sets the result of registry_heard_ms(); INT64_MAX, as at first: always now. */
void memory_set_heard_ms(struct registry *registry, int64_t heard_ms);
/* 0 at first: there is no session that the server ends. */
void memory_set_session_timeout_ms(struct registry *registry, int timeout_ms);

/*
 * Called before each task of that registry is carried out; NULL ends it. An error that it sets
 * becomes the task's result.
 */
typedef void memory_interfere(void *context, const struct registry_task *task, struct err *err);
void memory_on_task(struct registry *registry, memory_interfere *interfere, void *context);

/*
 * The next task about the path is carried out in its turn, and answered behind others: in the next
 * dispatch after memory_answer_late(). The path is borrowed until then.
 */
void memory_be_late(struct registry *registry, const char *path);
void memory_answer_late(struct registry *registry);

/* Changes by another client, at once. */
void memory_put(struct registry *registry, const char *path, const char *data);
void memory_remove(struct registry *registry, const char *path);

/* Tasks that wait for the next dispatch now, and the most that ever did. */
size_t memory_tasks(const struct registry *registry);
size_t memory_most_tasks(const struct registry *registry);
size_t memory_armed_watches(const struct registry *registry);

#endif
