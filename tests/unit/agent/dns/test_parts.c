/* LINK: parts */
/* The tests of this folder that replace no function of libc, as one program: its other files. */
#include "tests/support/one_test.h"
