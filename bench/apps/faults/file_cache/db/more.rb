# Fills the cache: the shop has been open for a while.
ENV["RAILS_ENV"] ||= "production"
require File.join(Dir.pwd, "config/environment")

(1..Label::COUNT).each { |id| Label.of(id) }
