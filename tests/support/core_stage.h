/* The registry core on a registry in memory, where the test decides what happens when. */
#ifndef TESTS_SUPPORT_CORE_STAGE_H
#define TESTS_SUPPORT_CORE_STAGE_H

#include <criterion/criterion.h>

#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/staged.h"

#define assert_answer(answer, name)                                                                \
	cr_assert_str_eq(answer_name(answer), name, "%s", (answer)->err.msg)

static inline bool is_present(void *context)
{
	return ((const struct answer *)context)->data != NULL;
}

static inline bool is_absent(void *context)
{
	return ((const struct answer *)context)->err.code == BERTH_PATH_NOT_FOUND;
}

static inline bool has_child(void *context)
{
	return ((const struct answer *)context)->children_count > 0;
}

static inline struct registry *open_connected(void)
{
	const struct registry_options options = { 0 };
	struct registry *registry = memory_open("core", &options);
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

/* A test of this suite on a connected registry. */
#define CONNECTED_TO(suite, name)                                                                  \
	STAGED_TEST(suite, name, struct registry *, registry, open_connected(), client_close)

static inline void move_to(struct registry *registry, enum registry_state state)
{
	memory_set_state(registry, state);
	client_wait_state(registry, state);
}

#endif
