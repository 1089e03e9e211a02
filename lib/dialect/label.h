/*
 * Labels: how a foreign node's name becomes an element of a registry path, and back.
 *
 * A name that is a valid element stays as it is. In any other:
 *
 *   _ between two of a-z and 0-9     becomes --      member_0000000007  member--0000000007
 *   any other byte but a-z, 0-9, and
 *   a - between two of these         becomes ---XX   10.0.0.1:80        10---2e0---2e0---2e1---3a80
 *   the same at the start            becomes x---XX  _web               x---5fweb
 *
 * XX are two lower-case hexadecimal digits. An x before an escaped byte at the start of a name is
 * escaped too, so that no two names have one label. A name whose label would exceed 63 bytes
 * becomes h---- and 32 hexadecimal digits of a hash: such a label leads back to its name through a
 * list of names alone.
 */
#ifndef LIB_DIALECT_LABEL_H
#define LIB_DIALECT_LABEL_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/limits.h"

#define DIALECT_LABEL_SIZE (LIMIT_PATH_ELEMENT_BYTES + 1)

/* The label of a name that is not empty. */
void dialect_label(char out[DIALECT_LABEL_SIZE], const char *name);

/* The name that has this label. False when no name has it, or when the label is a hash. */
bool dialect_label_name(char out[DIALECT_LABEL_SIZE], const char *label);

#endif
