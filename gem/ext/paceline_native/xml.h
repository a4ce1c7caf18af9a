/* What the XML files of the native part share, and what they call of crates/xml (Rust). */
#ifndef PACELINE_XML_H
#define PACELINE_XML_H

#include <ruby.h>
#include <ruby/encoding.h>
#include <stdbool.h>
#include <stdint.h>

/* crates/xml/src/ffi.rs */
size_t paceline_xml_escape(int32_t attribute, const uint8_t *text, size_t length, uint8_t *room, size_t size, size_t *read);

/* xml_builder.c: makes `xml` (Paceline::XML) native. Called once, from lib/paceline/xml/builder.rb. */
void paceline_init_xml(VALUE native);

#endif
