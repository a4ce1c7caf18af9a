/* Records in a file, for lib/paceline/records.rb. */
#ifndef PACELINE_STORE_H
#define PACELINE_STORE_H

#include <ruby.h>

void paceline_init_store(VALUE native);

#endif
