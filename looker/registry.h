/*
 * The looker as the process that works in the directory of a dir: registry
 * (lib/registry/dir/remote.h), without a cage: it does for its caller what that may do itself.
 */
#ifndef LOOKER_REGISTRY_H
#define LOOKER_REGISTRY_H

#include "lib/looker/wire.h"

/* `hello` is a DIR_FRAME_HELLO, the first frame, consumed by the caller's count of bytes `used`. */
_Noreturn void registry_serve(struct wire *wire, struct wire_frame *hello, size_t used);

#endif
