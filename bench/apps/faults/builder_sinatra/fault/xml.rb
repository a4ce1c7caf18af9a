# Builder writes the XML.
