#include "lib/base/boot.h"

#include <stdio.h>
#include <string.h>

void boot_read(char boot[BOOT_BYTES])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	boot[0] = '\0';
	if (file && fgets(boot, BOOT_BYTES, file)) {
		boot[strcspn(boot, "\n")] = '\0';
	}
	if (file) {
		fclose(file);
	}
}
