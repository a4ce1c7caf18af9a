# Builder writes the XML.
$LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR"), "lib"))
require "paceline/xml"
Paceline::XML.replace_builder!
