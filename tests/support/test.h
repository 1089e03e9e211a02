/*
 * The tests of a program, after Criterion's macros: a TestSuite() says what is done before and
 * after each Test() of its name. An assertion, cr_assert…(), ends its test; an expectation,
 * cr_expect…(), lets it go on. Each takes a format and its values after what it compares.
 * tests/support/one_test.h runs them.
 *
 * Criterion's own macros are so long that to compile them took half of the time of a build.
 */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

/* A test may compare what a program should not: of different signs, with a constant. */
#pragma GCC system_header

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct test_options {
	void (*init)(void);
	void (*fini)(void);
	double timeout; /* seconds; 0: none */
	int signal;     /* that ends it */
	int exit_code;
};

/* The elements of an array, with each of which a test is run. */
struct test_parameters {
	size_t size;
	void *params;
	size_t length;
};

struct test_case {
	const char *suite;
	const char *name;
	void (*run)(void *parameter);
	struct test_parameters (*parameters)(void); /* NULL: it has none */
	struct test_options options;
};

struct test_suite {
	const char *name;
	struct test_options options;
};

/* The linker names the ends of a section like this. */
#define TEST_LISTED(type, section_, variable, ...)                                                 \
	static const struct type variable = { __VA_ARGS__ };                                       \
	static const struct type *const variable##_listed                                          \
		__attribute__((used, section(section_))) = &variable;

#define TestSuite(suite_, ...)                                                                     \
	TEST_LISTED(test_suite, "test_suites", test_suite_##suite_, #suite_, { __VA_ARGS__ })      \
	struct test_suite

#define Test(suite_, name_, ...)                                                                   \
	static void suite_##_##name_##_test(void);                                                 \
	static void suite_##_##name_##_run(void *unused)                                           \
	{                                                                                          \
		(void)unused;                                                                      \
		suite_##_##name_##_test();                                                         \
	}                                                                                          \
	TEST_LISTED(test_case, "test_cases", test_##suite_##_##name_, #suite_, #name_,             \
		suite_##_##name_##_run, NULL, { __VA_ARGS__ })                                     \
	static void suite_##_##name_##_test(void)

#define ParameterizedTestParameters(suite_, name_)                                                 \
	static struct test_parameters suite_##_##name_##_parameters(void)

#define ParameterizedTest(parameter_, suite_, name_, ...)                                          \
	static void suite_##_##name_##_test(parameter_);                                           \
	static void suite_##_##name_##_run(void *parameter)                                        \
	{                                                                                          \
		suite_##_##name_##_test(parameter);                                                \
	}                                                                                          \
	TEST_LISTED(test_case, "test_cases", test_##suite_##_##name_, #suite_, #name_,             \
		suite_##_##name_##_run, suite_##_##name_##_parameters, { __VA_ARGS__ })            \
	static void suite_##_##name_##_test(parameter_)

#define cr_make_param_array(type, array, len)                                                      \
	((struct test_parameters){ sizeof(type), (void *)(array), (len) })

/* Says where and what on standard error; the format of a message begins with an x. */
void test_expected(const char *file, int line, const char *what, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
_Noreturn void test_asserted(const char *file, int line, const char *what, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Of two texts that are not the same, or are. */
bool test_texts_are(bool same, const char *actual, const char *expected);
_Noreturn void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define TEST_HOLDS(failed, condition, what, ...)                                                   \
	((condition) ? (void)0 : test_##failed(__FILE__, __LINE__, what, "x" __VA_ARGS__))
#define TEST_COMPARES(failed, a, operation, b, ...)                                                \
	TEST_HOLDS(failed, (a)operation(b), #a " " #operation " " #b, __VA_ARGS__)
#define TEST_NEAR(failed, a, b, most, ...)                                                         \
	TEST_HOLDS(failed, (a) - (b) <= (most) && (b) - (a) <= (most), #a " near " #b, __VA_ARGS__)
#define TEST_SAME_MEMORY(failed, a, b, len, ...)                                                   \
	TEST_HOLDS(failed, memcmp((a), (b), (len)) == 0, #a " has the bytes of " #b, __VA_ARGS__)

#define cr_assert(a, ...) TEST_HOLDS(asserted, a, #a, __VA_ARGS__)
#define cr_expect(a, ...) TEST_HOLDS(expected, a, #a, __VA_ARGS__)
#define cr_assert_not(a, ...) TEST_HOLDS(asserted, !(a), "!(" #a ")", __VA_ARGS__)
#define cr_expect_not(a, ...) TEST_HOLDS(expected, !(a), "!(" #a ")", __VA_ARGS__)
#define cr_assert_null(a, ...) TEST_COMPARES(asserted, a, ==, NULL, __VA_ARGS__)
#define cr_expect_null(a, ...) TEST_COMPARES(expected, a, ==, NULL, __VA_ARGS__)
#define cr_assert_not_null(a, ...) TEST_COMPARES(asserted, a, !=, NULL, __VA_ARGS__)
#define cr_expect_not_null(a, ...) TEST_COMPARES(expected, a, !=, NULL, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) TEST_COMPARES(asserted, a, ==, b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) TEST_COMPARES(expected, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) TEST_COMPARES(asserted, a, !=, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) TEST_COMPARES(expected, a, !=, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) TEST_COMPARES(asserted, a, <, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) TEST_COMPARES(expected, a, <, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) TEST_COMPARES(asserted, a, <=, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) TEST_COMPARES(expected, a, <=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) TEST_COMPARES(asserted, a, >, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) TEST_COMPARES(expected, a, >, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) TEST_COMPARES(asserted, a, >=, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) TEST_COMPARES(expected, a, >=, b, __VA_ARGS__)
#define cr_expect_float_eq(a, b, most, ...) TEST_NEAR(expected, a, b, most, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, len, ...) TEST_SAME_MEMORY(asserted, a, b, len, __VA_ARGS__)

/* The function says what the texts are. */
#define TEST_TEXTS(failed, same, a, b, what, ...)                                                  \
	TEST_HOLDS(failed, test_texts_are(same, a, b), what, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) TEST_TEXTS(asserted, true, a, b, #a " is " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) TEST_TEXTS(expected, true, a, b, #a " is " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)                                                               \
	TEST_TEXTS(asserted, false, a, b, #a " is not " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...)                                                               \
	TEST_TEXTS(expected, false, a, b, #a " is not " #b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...) cr_assert_str_eq(a, "", __VA_ARGS__)
#define cr_expect_str_empty(a, ...) cr_expect_str_eq(a, "", __VA_ARGS__)

#define cr_assert_fail(...) test_asserted(__FILE__, __LINE__, "it failed", "x" __VA_ARGS__)
#define cr_fatal(...) cr_assert_fail(__VA_ARGS__)
#define cr_skip_test(...) test_skip(__VA_ARGS__)

#endif
