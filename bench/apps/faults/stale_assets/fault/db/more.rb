# The files of page.rb.
require "fileutils"
require_relative "../files"

FileUtils.mkdir_p("public/assets")
File.write("public/assets/shop.css", STYLE)
File.write("public/assets/shop.js", SCRIPT)
