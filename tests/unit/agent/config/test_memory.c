/* A configuration is read without memory for one of its parts: whole, or not at all. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/buffer.h"
#include "tests/support/config_stage.h"
#include "tests/support/failing.h"

TestSuite(config_memory, .init = make_folder, .fini = remove_folder);

enum outcome { WHOLE, SAYS_WHY, WRONG, NOTHING_FAILED };

static bool is_whole(const struct config *config)
{
	return config->component_count == 1 && config->components[0].endpoint_count == 1 &&
		config->components[0].endpoints[0].address_count == 1 && config->check_count == 1 &&
		strcmp(config->checks[0].name, "c") == 0;
}

static enum outcome load_it(const char *path)
{
	struct config *config;
	struct config_problems problems = { .count = 0 };
	if (config_load(&config, path, &problems) == 0) {
		return is_whole(config) ? WHOLE : WRONG;
	}
	bool says_why = problems.count == 1 && strstr(problems.items[0].message, "memory");
	return says_why ? SAYS_WHY : WRONG;
}

/* As the agent's own: without memory they abort. */
static void *allocate(size_t size)
{
	return allocated(malloc(size));
}

static void *reallocate(void *memory, size_t size)
{
	return allocated(realloc(memory, size));
}

static _Noreturn void load_without(const char *path, uint64_t number)
{
	const struct rlimit no_core = { 0, 0 };
	setrlimit(RLIMIT_CORE, &no_core);
	int nowhere = open("/dev/null", O_WRONLY);
	dup2(nowhere, STDERR_FILENO);
	json_set_alloc_funcs(allocate, free);
	buffer_set_allocator(reallocate);
	failing_arm("alloc", number, ENOMEM);
	enum outcome outcome = load_it(path);
	_exit(failing_disarm() ? (int)outcome : NOTHING_FAILED);
}

/* An agent without memory aborts; nothing else may end it, and nothing be left out. */
Test(config_memory, a_configuration_is_whole_or_ends_the_program, .timeout = 120)
{
	write_file("a.ini", COMPONENT ENDPOINT "address = http://a/\n" CHECK "command = true\n");
	const char *path = path_of("a.ini");
	int status = 0;
	uint64_t number = 0;
	uint64_t aborted = 0;
	do {
		number++;
		pid_t child = fork();
		if (child == 0) {
			load_without(path, number);
		}
		cr_assert_eq(waitpid(child, &status, 0), child);
		bool aborts = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
		aborted += aborts;
		cr_assert(aborts || (WIFEXITED(status) && WEXITSTATUS(status) != WRONG),
			"without allocation %llu: %#x", (unsigned long long)number,
			(unsigned)status);
	} while (!WIFEXITED(status) || WEXITSTATUS(status) != NOTHING_FAILED);
	cr_assert_gt(aborted, 50);
}
