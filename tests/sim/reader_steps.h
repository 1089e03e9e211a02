/*
 * lib/shared/read.c once more: the same reader, which calls reader_load() for every word that it
 * loads, so that a thread can be stopped there.
 */
#ifndef TESTS_SIM_READER_STEPS_H
#define TESTS_SIM_READER_STEPS_H

#define shared_map_open reader_map_open
#define shared_map_close reader_map_close
#define shared_map_read reader_map_read
#define shared_map_unchanged reader_map_unchanged

#include "lib/shared/read.h"

uint64_t reader_load(shared_word *word);

#endif
