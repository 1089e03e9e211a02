/* LINK: parts */
/* The tests of this folder that need HTTP itself, as one program: its other files. */
#include "tests/support/one_test.h"
