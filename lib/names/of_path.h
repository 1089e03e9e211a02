/* From a path to the shortest name that means it. Pure. */
#ifndef LIB_NAMES_OF_PATH_H
#define LIB_NAMES_OF_PATH_H

#include "lib/names/text.h"

/*
 * Without the domain, and without the levels that may be left out. Of a component it is the name of
 * its instance. False for a path that has no name of two labels or more.
 */
bool names_of_path(char out[NAMES_NAME_BYTES], const char *path);

#endif
