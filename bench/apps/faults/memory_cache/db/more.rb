# Fills the cache, as far as it outlives a process: the shop has been open for a while.
ENV["RAILS_ENV"] ||= "production"
require File.join(Dir.pwd, "config/environment")

Best.ids
