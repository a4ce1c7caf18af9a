/* Paceline::XML::Builder, native. */
#include "xml.h"

void paceline_init_xml(VALUE native) {
    (void)native;
}
