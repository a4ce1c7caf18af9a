# The files of page.rb.
require "fileutils"
require_relative "../files"

FileUtils.mkdir_p("public/assets")
File.write("public/assets/shop-2f1cbd4d8aa01cf7.css", STYLE)
File.write("public/assets/shop-7b09e1f2d3c4a5b6.js", SCRIPT)
