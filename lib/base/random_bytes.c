#include "lib/base/random_bytes.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"

static bool read_device(void *out, size_t len)
{
	int fd = open("/dev/urandom", O_RDONLY | O_NOCTTY | O_CLOEXEC);
	bool whole = fd >= 0 && read(fd, out, len) == (ssize_t)len;
	if (fd >= 0) {
		close(fd);
	}
	return whole;
}

/* splitmix64 */
static void make_some(unsigned char *out, size_t len)
{
	static uint64_t state;
	state ^= (uint64_t)clock_read_ns(CLOCK_REALTIME) ^ (uint64_t)getpid() << 48 ^
		(uint64_t)(uintptr_t)&len;
	for (size_t i = 0; i < len; i++) {
		state += UINT64_C(0x9e3779b97f4a7c15);
		uint64_t mixed = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
		out[i] = (unsigned char)(mixed >> 32);
	}
}

bool random_bytes(void *out, size_t len)
{
	if (getrandom(out, len, GRND_NONBLOCK) == (ssize_t)len || read_device(out, len)) {
		return true;
	}
	make_some(out, len);
	return false;
}
