/* The mutant that the environment names, for programs that run no tests of Criterion. */
#include <stdlib.h>

#include "tests/mutants/reach.h"
#include "tests/mutants/switch.h"

int berth_mutant(int function)
{
	static int chosen = -1;
	reach_note(function, "", "");
	if (chosen < 0) {
		const char *number = getenv("BERTH_MUTANT");
		chosen = number ? atoi(number) : 0;
	}
	return chosen;
}
