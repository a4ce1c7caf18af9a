/* The names of elements that have become methods. */
#ifndef PACELINE_XML_TAGS_H
#define PACELINE_XML_TAGS_H

#include "xml.h"

void xml_init_tags(VALUE xml, VALUE builder_class);
/* Makes a method of the name, so that its next use needs no method_missing. Does nothing when there are many already. */
void xml_remember_tag(ID name);
/* Whether the builder has a private method of this name, or Ruby asks for one. */
bool xml_is_called_by_others(VALUE self, ID name);
/* xml_builder.c: what those methods do. */
VALUE xml_call_tag(int argc, VALUE *argv, VALUE self);

#endif
