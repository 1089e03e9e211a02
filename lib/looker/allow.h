/* Which paths the patterns of `allow` have. Pure. */
#ifndef LIB_LOOKER_ALLOW_H
#define LIB_LOOKER_ALLOW_H

#include <stdbool.h>

/* A * stands for a part of one element, a trailing slash and two asterisks for everything below. */
bool looker_allows(const char *pattern, const char *path);

#endif
