/*
 * The copy of a source that holds its mutants includes this header. berth_mutant() says which of
 * the mutants this process runs, and notes the tests that come to the function.
 */
#ifndef TESTS_MUTANTS_SWITCH_H
#define TESTS_MUTANTS_SWITCH_H

/* tests/mutants/runtime.c, or tests/mutants/chosen.c for a program without Criterion. */
int berth_mutant(int function);

#endif
