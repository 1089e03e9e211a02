#include "tests/sim/reader_steps.h"

#undef atomic_load_explicit
#define atomic_load_explicit(word, order) reader_load(word)

#include "lib/shared/read.c"
