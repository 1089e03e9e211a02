/* The rights that a place gives to tests: words and probe are those of tests/support/rights.py. */
#ifndef TESTS_SUPPORT_RIGHTS_H
#define TESTS_SUPPORT_RIGHTS_H

/* Skips the Criterion test that calls it, with the reason, when the right is missing here. */
void rights_needed(const char *right);

#endif
