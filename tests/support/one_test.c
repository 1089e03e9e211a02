#include "tests/support/one_test.h"

#include <criterion/new/assert.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

struct criterion_options criterion_options;

static const struct criterion_test *running;
static void *running_parameter;
static struct one_test_result *result;
static jmp_buf end_of_part; /* the set-up, the test itself or its end */
static bool set_up;
static int messages = -1; /* standard error, whatever a test makes of its own */

enum { FIRST_FD = 500 }; /* out of the way of tests that count descriptors */

static const struct criterion_test_extra_data *suite_of(const struct criterion_test *test)
{
	static const struct criterion_test_extra_data none;
	for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++) {
		if (*suite && strcmp((*suite)->name, test->category) == 0) {
			return (*suite)->data;
		}
	}
	return &none;
}

void one_test_run(
	const struct criterion_test *test, void *parameter, struct one_test_result *ret_result)
{
	running = test;
	running_parameter = parameter;
	result = ret_result;
	set_up = false;
	if (messages < 0) {
		messages = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, FIRST_FD);
	}
	test->test(); /* calls the three functions below */
	fflush(NULL);
}

const struct criterion_test *one_test_running(void)
{
	return running;
}

double one_test_timeout(const struct criterion_test *test)
{
	return test->data->timeout > 0 ? test->data->timeout : suite_of(test)->timeout;
}

/* ---- the parts of a test ---- */

void criterion_internal_test_setup(void)
{
	if (setjmp(end_of_part)) {
		return;
	}
	if (suite_of(running)->init) {
		suite_of(running)->init();
	}
	if (running->data->init) {
		running->data->init();
	}
	set_up = true;
}

void criterion_internal_test_main(void (*function)(void))
{
	if (!set_up || setjmp(end_of_part)) {
		return;
	}
	if (running->data->kind_ == CR_TEST_PARAMETERIZED) {
		((void (*)(void *))function)(running_parameter);
	} else {
		function();
	}
}

void criterion_internal_test_teardown(void)
{
	if (!set_up || setjmp(end_of_part)) {
		return;
	}
	if (running->data->fini) {
		running->data->fini();
	}
	if (suite_of(running)->fini) {
		suite_of(running)->fini();
	}
}

void criterion_abort_test(void)
{
	result->failed = true;
	longjmp(end_of_part, 1);
}

void criterion_continue_test(void)
{
	result->failed = true;
}

void criterion_skip_test(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(result->reason, sizeof(result->reason), format, arguments);
	va_end(arguments);
	result->skipped = true;
	longjmp(end_of_part, 1);
}

/* ---- messages ---- */

static char *format_text(const char *format, va_list arguments)
{
	char *text;
	if (vasprintf(&text, format, arguments) < 0) {
		abort();
	}
	return text;
}

int cr_asprintf(char **ret_text, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	*ret_text = format_text(format, arguments);
	va_end(arguments);
	return (int)strlen(*ret_text);
}

void cr_asprintf_free(char *text)
{
	free(text);
}

/* The message of an assertion in <criterion/assert.h> that has none of its own. */
char *cr_translate_assert_msg(int message, ...)
{
	va_list arguments;
	va_start(arguments, message);
	const char *expression = va_arg(arguments, const char *);
	char *text;
	switch (message) {
	case CRITERION_ASSERT_MSG_EXPR_FALSE:
		cr_asprintf(&text, "%s is false", expression);
		break;
	case CRITERION_ASSERT_MSG_EXPR_AS_STRINGS_FALSE: {
		const char *actual = va_arg(arguments, const char *);
		const char *expected = va_arg(arguments, const char *);
		cr_asprintf(&text, "%s is false: they are \"%s\" and \"%s\"", expression,
			actual ? actual : "(NULL)", expected ? expected : "(NULL)");
		break;
	}
	case CRITERION_ASSERT_MSG_IS_NULL:
		cr_asprintf(&text, "%s is not NULL", expression);
		break;
	case CRITERION_ASSERT_MSG_IS_NOT_NULL:
		cr_asprintf(&text, "%s is NULL", expression);
		break;
	default:
		cr_asprintf(&text, "%s", expression);
	}
	va_end(arguments);
	return text;
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	dprintf(messages, "%s:%u: %s/%s: %s\n", stats->file, stats->line, running->category,
		running->name, stats->message);
}

void cri_asserts_passed_incr(void)
{
}

/* ---- <criterion/new/assert.h> ---- */

char *cri_assert_message(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	char *text = format_text(format, arguments);
	va_end(arguments);
	memmove(text, text + 1, strlen(text)); /* the "x" of the macros */
	return text;
}

void cri_assert_node_init(struct cri_assert_node *node)
{
	*node = (struct cri_assert_node){ 0 };
}

struct cri_assert_node *cri_assert_node_add(
	struct cri_assert_node *tree, struct cri_assert_node *node)
{
	struct cri_assert_node *grown = realloc(
		tree->children, (tree->nchild + 1) * sizeof(*grown));
	if (!grown) {
		abort();
	}
	tree->children = grown;
	grown[tree->nchild] = *node;
	return &grown[tree->nchild++];
}

void cri_assert_node_negate(struct cri_assert_node *tree)
{
	tree->pass = !tree->pass;
}

void cri_assert_node_term(struct cri_assert_node *tree)
{
	for (uint32_t i = 0; i < tree->nchild; i++) {
		struct cri_assert_node *child = &tree->children[i];
		cri_assert_node_term(child);
		for (size_t p = 0; p < CRI_ASSERT_MAX_PARAMS; p++) {
			free(child->params[p].data);
		}
		if (child->dynrepr) {
			free((char *)child->repr);
		}
	}
	free(tree->children);
	free((char *)tree->message);
}

static void show_nodes(const struct cri_assert_node *tree)
{
	for (uint32_t i = 0; i < tree->nchild; i++) {
		const struct cri_assert_node *child = &tree->children[i];
		if (child->pass) {
			continue;
		}
		if (child->repr) {
			dprintf(messages, "  %s is false\n", child->repr);
		}
		for (size_t p = 0; p < CRI_ASSERT_MAX_PARAMS && child->params[p].name; p++) {
			dprintf(messages, "    %s: %s\n", child->params[p].name,
				(const char *)child->params[p].data);
		}
		show_nodes(child);
	}
}

void cri_assert_node_send(const char *file, size_t line, struct cri_assert_node *tree)
{
	dprintf(messages, "%s:%zu: %s/%s: %s\n", file, line, running->category, running->name,
		tree->message);
	show_nodes(tree);
}

int cr_user_str_eq(char **actual, char **expected)
{
	return *actual && *expected ? strcmp(*actual, *expected) == 0 : *actual == *expected;
}

char *cr_user_str_tostr(char **text)
{
	char *quoted;
	cr_asprintf(&quoted, *text ? "\"%s\"" : "NULL", *text);
	return quoted;
}
