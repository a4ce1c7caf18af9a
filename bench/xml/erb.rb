# frozen_string_literal: true

# ERB with CGI.escapeHTML: the templates in bench/apps/xml/erb.
require "cgi"
require "erb"
require_relative "page"

module Bench
  class XmlErb
    class Page < XmlPage
      Documents::NAMES.each do |name|
        path = File.join(APP, "erb/#{name}.xml.erb")
        ERB.new(File.read(path), trim_mode: "-").def_method(self, "#{name}()", path)
      end
    end

    def work(name) = Page.new(name).method(name).to_proc
  end
end
