#include "xds/cage.h"

#include "lib/base/forget_code.h"

enum { MEMORY_MIB = 1024 };

void cage_enter(char out[SANDBOX_WORDS_BYTES])
{
	const struct sandbox_profile profile = { .rights = SANDBOX_CONNECT_UNIX | SANDBOX_ACCEPT,
		.memory_mib = MEMORY_MIB };
	sandbox_enter(&profile, out);
	forget_code();
}
