/*
 * The parts of conf/berth.full.ini and docs/berth.ini.5 that come from the table of options. The
 * agent prints neither.
 */
#ifndef TESTS_SUPPORT_CONFIG_DOCUMENTS_H
#define TESTS_SUPPORT_CONFIG_DOCUMENTS_H

#include <stdio.h>

/* berth.full.ini: every option with its default and help. */
void config_documents_reference(FILE *stream);
/* The options for a manual page (mdoc list items), by section. */
void config_documents_manual(FILE *stream);

#endif
