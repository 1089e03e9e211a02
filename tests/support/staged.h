/*
 * A test on a stage that is set up before it and taken down behind it. The body has `stage`, of
 * `type` and with the value of the expression `begin`; end(stage) follows.
 */
#ifndef TESTS_SUPPORT_STAGED_H
#define TESTS_SUPPORT_STAGED_H

#include <criterion/criterion.h>

#define STAGED_TEST(suite, name, type, stage, begin, end)                                          \
	static void name(type stage);                                                              \
	Test(suite, name)                                                                          \
	{                                                                                          \
		type stage = begin;                                                                \
		name(stage);                                                                       \
		end(stage);                                                                        \
	}                                                                                          \
	static void name(type stage)

#endif
