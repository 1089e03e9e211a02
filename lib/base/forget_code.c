#include "lib/base/forget_code.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static int forget(struct dl_phdr_info *info, size_t size, void *context)
{
	uintptr_t mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	(void)size;
	(void)context;
	bool has_headers = false;
	/* The part that holds these headers themselves comes last: reading them brings it back. */
	for (int i = info->dlpi_phnum - 1; i >= 0 && !has_headers; i--) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t begin = (info->dlpi_addr + part->p_vaddr) & mask;
		uintptr_t end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
		has_headers = part->p_type == PT_LOAD && part->p_offset == 0;
		if (part->p_type == PT_LOAD && !(part->p_flags & PF_W)) {
			(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
		}
	}
	return 0;
}

void forget_code(void)
{
	dl_iterate_phdr(forget, NULL);
}
